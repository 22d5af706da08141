"""Runs the service with two workers, kills them again and again, and checks that no document was lost and
none was counted twice: python -m saas.kill_workers

DATABASE_URL is the login of the web service, and WORKER_DATABASE_URL that of the workers.
"""

import os
import random
import subprocess
import sys
import time
from collections import Counter

from sqlalchemy import Select, func, select

from saas import tasks, web
from saas.database import Charge, Document, Import, Invoice, engine, new_session

TENANTS = ("acme", "bluebird", "cedar", "dune")
WORKER = [sys.executable, "-m", "lonnymq", "worker", "saas.tasks:app", "--concurrency", "4", "--lease", "2"]
TIMEOUT_S = 120


class Worker:
    """A worker process. It is started again after it was killed."""

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        if address := os.environ.get("WORKER_DATABASE_URL"):
            self._environment["DATABASE_URL"] = address
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(WORKER, env=self._environment, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """With SIGKILL: the process cannot finish or give back anything."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def upload(count: int) -> None:
    """The documents of each tenant are one import."""
    for part, tenant in enumerate(TENANTS):
        words = [random.randint(1, 50) for _ in range(part, count, len(TENANTS))]  # noqa: S311 - no secret
        web.start_import(web.Uploads(texts=["word " * each for each in words]), tenant)


def number_of_uncounted() -> int:
    with new_session() as session:
        return session.scalar(select(func.count()).where(Document.words.is_(None))) or 0


def kill_while_counting(workers: list[Worker], count: int, kills: int) -> None:
    """Kill a worker each time another part of the documents has been counted, while both are at work."""
    deadline = time.monotonic() + TIMEOUT_S
    killed = 0
    while (left := number_of_uncounted()) > 0 and time.monotonic() < deadline:
        if killed < kills and count - left > count * killed // kills:
            worker = workers[killed % len(workers)]
            worker.kill()
            worker.start()
            killed += 1
        time.sleep(0.01)


def wait_for_rows(query: Select[int], expected: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    with new_session() as session:
        while (session.scalar(query) or 0) < expected and time.monotonic() < deadline:
            session.rollback()
            time.sleep(0.1)


def mistakes() -> list[str]:
    """Compares what was uploaded with what was done."""
    with new_session() as session:
        documents = {each.id: each for each in session.scalars(select(Document))}
        charges = list(session.scalars(select(Charge)))
        invoices = list(session.scalars(select(Invoice)))
        imports = list(session.scalars(select(Import)))
    counted = Counter(charge.document_id for charge in charges)
    found = [f"document {each} is lost" for each in documents if each not in counted]
    found += [f"document {each} was counted {times} times" for each, times in counted.items() if times > 1]
    found += [
        f"document {charge.document_id} was counted wrongly"
        for charge in charges
        if charge.words != len(documents[charge.document_id].text.split())
    ]
    for each in imports:
        uploaded = sum(document.tenant == each.tenant for document in documents.values())
        if (each.reports, each.counted, each.failed) != (1, uploaded, 0):
            found.append(
                f"import {each.id} of {uploaded} documents: {each.reports} reports of {each.counted}"
            )
    for tenant in TENANTS:
        owed = sum(charge.words for charge in charges if charge.tenant == tenant)
        billed = [invoice.words for invoice in invoices if invoice.tenant == tenant]
        if billed != ([owed] if owed else []):
            found.append(f"{tenant} owes {owed} words and got invoices for {billed}")
    return found


def main(count: int, kills: int) -> int:
    upload(count)
    workers = [Worker(), Worker()]
    try:
        kill_while_counting(workers, count, kills)
        wait_for_rows(select(func.sum(Import.reports)), len(TENANTS))
        with new_session() as session:
            tasks.invoice_tenants.enqueue(str(session.scalar(select(func.current_date()))))
            for worker in workers:
                worker.kill()
                worker.start()
            wait_for_rows(select(func.count(Invoice.id)), len(TENANTS))
            repeated = session.scalar(select(func.count()).where(Charge.attempt > 1)) or 0
    finally:
        for worker in workers:
            worker.stop()
    found = mistakes()
    print(f"{count} documents, {kills + 2} kills; {repeated} documents were served again after a kill")
    print(
        "\n".join(found)
        or "every document was counted exactly once; every tenant got one report and one invoice"
    )
    tasks.queue.close()
    engine.dispose()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*(int(each) for each in sys.argv[1:3] or ("1000", "10"))))
