from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from lonnymq import Queue
from lonnymq.testing import drain, job
from saas import web
from saas.database import Charge, Document, new_session
from saas.tasks import app, count_words, invoice_tenants


def upload(client: TestClient, tenant: str, text: str) -> int:
    answer = client.post("/documents", json={"text": text}, headers={"X-Tenant": tenant})
    assert answer.status_code == 202
    return int(answer.json()["id"])


def words(client: TestClient, tenant: str, document: int) -> int | None:
    answer = client.get(f"/documents/{document}", headers={"X-Tenant": tenant})
    assert answer.status_code == 200
    count: int | None = answer.json()["words"]
    return count


def test_a_document_is_counted_in_the_background(client: TestClient) -> None:
    document = upload(client, "acme", "one two three")
    assert words(client, "acme", document) is None

    assert drain(app).completed == 1
    assert words(client, "acme", document) == 3


def test_a_request_that_fails_leaves_neither_document_nor_message(
    client: TestClient, lonnymq_queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "DOCUMENTS_MAX", 1)
    upload(client, "acme", "the first")

    refused = client.post("/documents", json={"text": "the second"}, headers={"X-Tenant": "acme"})
    assert refused.status_code == 402
    assert len(lonnymq_queue.messages(channel="acme")) == 1
    assert drain(app).completed == 1


def test_a_quiet_tenant_does_not_wait_for_a_noisy_one(client: TestClient, lonnymq_queue: Queue) -> None:
    for number in range(50):
        upload(client, "noisy", f"document {number}")
    upload(client, "quiet", "a single document")

    assert "quiet" in [message.channel for message in lonnymq_queue.dequeue(3)]


def test_an_operator_limits_a_tenant(client: TestClient, lonnymq_queue: Queue) -> None:
    lonnymq_queue.channel("noisy").set(max_concurrency=2)
    for number in range(10):
        upload(client, "noisy", f"document {number}")

    assert len(lonnymq_queue.dequeue(10)) == 2


def test_a_document_that_cannot_be_counted_is_tried_again(client: TestClient) -> None:
    document = upload(client, "acme", "\x1b[2J")

    def backlog() -> dict[str, int]:
        found: dict[str, int] = client.get("/backlog", headers={"X-Tenant": "acme"}).json()
        return found

    with pytest.raises(ValueError, match="is not text"):
        drain(app)
    assert backlog() == {"waiting": 1, "dead": 0}

    drained = drain(app, with_scheduled=True, raise_errors=False)  # without waiting for the backoff
    assert len(drained.errors) == 9
    assert backlog() == {"waiting": 0, "dead": 1}
    assert words(client, "acme", document) is None


def test_each_tenant_gets_an_invoice_for_its_words(client: TestClient) -> None:
    for tenant, text in (("acme", "one two"), ("acme", "three"), ("bluebird", "four")):
        upload(client, tenant, text)
    drain(app)
    with new_session() as session:
        today = str(session.scalar(select(func.current_date())))

    invoice_tenants.enqueue(today)
    assert drain(app).completed == 3
    for tenant, count in (("acme", 3), ("bluebird", 1), ("cedar", None)):
        invoices = client.get("/invoices", headers={"X-Tenant": tenant}).json()
        assert invoices == ({} if count is None else {today: count})


def test_an_import_is_reported_when_its_last_document_is_counted(client: TestClient) -> None:
    texts = ["one", "two words", "\x1b[2J"]
    started = client.post("/imports", json={"texts": texts}, headers={"X-Tenant": "acme"}).json()["id"]

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/imports/{started}", headers={"X-Tenant": "acme"}).json()
        return found

    assert shown() == {"waiting": 3, "counted": None, "failed": None}
    drain(app, raise_errors=False)
    assert shown() == {"waiting": 1, "counted": None, "failed": None}
    drain(app, with_scheduled=True, raise_errors=False)  # until the last one is dead
    assert shown() == {"waiting": 0, "counted": 2, "failed": 1}


def test_a_report(client: TestClient) -> None:
    documents = [upload(client, "acme", "word " * number) for number in range(5)]
    drain(app)
    report = client.post("/reports", headers={"X-Tenant": "acme"}).json()["id"]

    def shown() -> dict[str, Any]:
        found: dict[str, Any] = client.get(f"/reports/{report}", headers={"X-Tenant": "acme"}).json()
        return found

    assert shown() == {"status": "due", "progress": None, "result": None}
    drain(app)
    assert shown() == {"status": "completed", "progress": None, "result": documents[:1:-1]}
    assert client.get(f"/reports/{report}", headers={"X-Tenant": "bluebird"}).status_code == 404


def test_a_handler_without_a_queue() -> None:
    """The job is a fake, and the transaction is real."""
    with new_session.begin() as session:
        session.add(Document(id=7, tenant="acme", text="one two three"))
    with job(attempt=2) as fake:
        count_words(7)
    assert fake.is_completed
    with new_session() as session:
        [charge] = session.scalars(select(Charge))
        assert (charge.document_id, charge.words, charge.attempt) == (7, 3, 2)


def test_a_tenant_cannot_read_another_ones_documents(client: TestClient) -> None:
    document = upload(client, "acme", "secret")
    answer = client.get(f"/documents/{document}", headers={"X-Tenant": "bluebird"})
    assert answer.status_code == 404
