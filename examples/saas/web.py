"""The HTTP interface: uvicorn saas.web:api"""

from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel
from sqlalchemy import func, select

from saas import tasks
from saas.database import Document, Import, Invoice, new_session

DOCUMENTS_MAX = 100

api = FastAPI(title="Word counts")
Tenant = Annotated[str, Header(alias="X-Tenant")]  # a real service takes it from the login


class Upload(BaseModel):
    text: str


class Uploads(BaseModel):
    texts: list[str]


@api.post("/documents", status_code=202)
def upload(body: Upload, tenant: Tenant) -> dict[str, int]:
    """The document and the message about it are one transaction: both exist, or neither does."""
    with new_session.begin() as session:
        document = Document(tenant=tenant, text=body.text)
        session.add(document)
        session.flush()  # now it has an id
        tasks.count_words.using(channel=tenant, conn=session).enqueue(document.id)
        owned = session.scalar(select(func.count()).where(Document.tenant == tenant)) or 0
        if owned > DOCUMENTS_MAX:  # rolls back the document and its message
            raise HTTPException(402, f"{tenant} may have {DOCUMENTS_MAX} documents")
        return {"id": document.id}


@api.get("/documents/{document_id}")
def read(document_id: int, tenant: Tenant) -> dict[str, int | None]:
    with new_session() as session:
        document = session.get(Document, document_id)
        if document is None or document.tenant != tenant:
            raise HTTPException(404, "no such document")
        return {"words": document.words}


@api.post("/imports", status_code=202)
def start_import(body: Uploads, tenant: Tenant) -> dict[str, int]:
    """The documents are a batch: when the last of them is counted, `report_import` runs."""
    with new_session.begin() as session:
        started = Import(tenant=tenant)
        documents = [Document(tenant=tenant, text=text) for text in body.texts]
        session.add_all([started, *documents])
        session.flush()
        done = tasks.report_import.using(channel=tenant).message(started.id)
        with tasks.queue.batch(f"import {started.id}", on_complete=done, conn=session) as batch:
            count = tasks.count_words.using(channel=tenant)
            batch.enqueue_many(count.message(document.id) for document in documents)
        started.batch_id = batch.id
        return {"id": started.id}


@api.get("/imports/{import_id}")
def read_import(import_id: int, tenant: Tenant) -> dict[str, int | None]:
    with new_session() as session:
        found = session.get(Import, import_id)
        if found is None or found.tenant != tenant:
            raise HTTPException(404, "no such import")
        batch = None if found.batch_id is None else tasks.queue.batch_status(found.batch_id)
        waiting = None if batch is None else batch.waiting + batch.leased
        return {"waiting": waiting, "counted": found.counted, "failed": found.failed}


@api.post("/reports", status_code=202)
def start_report(tenant: Tenant) -> dict[str, int | None]:
    """Ask for the ids of the tenant's three longest documents."""
    return {"id": tasks.longest_documents.using(channel=tenant).enqueue(tenant, 3).id}


@api.get("/reports/{report_id}")
def read_report(report_id: int, tenant: Tenant) -> dict[str, Any]:
    status = tasks.queue.status(report_id)
    if status.channel != tenant:
        raise HTTPException(404, "no such report")
    result = tasks.queue.result(report_id) if status.status == "completed" else None
    return {"status": status.status, "progress": status.progress, "result": result}


@api.get("/backlog")
def backlog(tenant: Tenant) -> dict[str, int]:
    stats = tasks.queue.channel(tenant).stats()
    return {"waiting": stats.waiting, "dead": stats.dead}


@api.get("/invoices")
def invoices(tenant: Tenant) -> dict[str, int]:
    with new_session() as session:
        found = session.scalars(select(Invoice).where(Invoice.tenant == tenant).order_by(Invoice.day))
        return {invoice.day.isoformat(): invoice.words for invoice in found}
