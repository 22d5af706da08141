"""The work that is done in the background: lonnymq worker saas.tasks:app

Each task writes its result and completes its message in one transaction. So its work is done exactly once,
even if a worker is killed at any moment.
"""

from datetime import UTC, date, datetime, timedelta

from sqlalchemy import func, select

from lonnymq import App, Backoff, Job, Queue
from saas.database import Charge, Document, Import, Invoice, engine, new_session

queue = Queue(engine)
app = App(queue)


@app.task(max_attempts=10, backoff=Backoff(first=1, longest=60))
def count_words(document_id: int) -> None:
    """In the channel of the document's tenant."""
    with new_session.begin() as session:
        document = session.get_one(Document, document_id)
        if not document.text.isprintable():
            raise ValueError(f"document {document_id} is not text")
        words = document.words = len(document.text.split())
        job = Job.current()
        session.add(Charge(tenant=document.tenant, document_id=document_id, words=words, attempt=job.attempt))
        job.complete(conn=session)


@app.task(max_attempts=10)
def report_import(import_id: int) -> None:
    """Enqueued in the transaction that finishes the last document of an import."""
    job = Job.current()
    with new_session.begin() as session:
        imported = session.get_one(Import, import_id)
        if job.batch is not None:
            imported.counted, imported.failed = job.batch.completed, job.batch.dead
        imported.reports += 1
        job.complete(conn=session)


@app.task(keep_result=3600)
def longest_documents(tenant: str, count: int) -> list[int]:
    """The ids of a tenant's longest documents. The web service shows the progress, and then the result."""
    job = Job.current()
    with new_session() as session:
        of_tenant = Document.tenant == tenant
        total = session.scalar(select(func.count()).where(of_tenant)) or 0
        lengths: dict[int, int] = {}
        for done, document in enumerate(session.scalars(select(Document).where(of_tenant)), start=1):
            lengths[document.id] = len(document.text.split())
            job.progress(done / max(done, total), f"document {done} of {total}")
    return sorted(lengths, key=lambda each: (-lengths[each], each))[:count]


@app.cron("0 1 * * *")
@app.task(channel="billing", max_attempts=10)
def invoice_tenants(day: str | None = None) -> None:
    """Every night: one message for each tenant that used the service on the day before."""
    job = Job.current()
    fired_at = datetime.now(UTC).timestamp() if job.scheduled_at is None else job.scheduled_at / 1000
    day_before = datetime.fromtimestamp(fired_at, UTC).date() - timedelta(days=1)
    billed = day_before if day is None else date.fromisoformat(day)
    with new_session.begin() as session:
        for tenant in session.scalars(select(Charge.tenant).where(Charge.day == billed).distinct()):
            invoice_tenant.using(channel=tenant, conn=session).enqueue(tenant, billed)
        job.complete(conn=session)


@app.task(max_attempts=10, validate=True)
def invoice_tenant(tenant: str, day: date) -> None:
    with new_session.begin() as session:
        of_the_day = select(func.sum(Charge.words)).where(Charge.tenant == tenant, Charge.day == day)
        session.add(Invoice(tenant=tenant, day=day, words=session.scalar(of_the_day) or 0))
        Job.current().complete(conn=session)
