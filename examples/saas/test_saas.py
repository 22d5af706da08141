import pytest
from fastapi.testclient import TestClient

from lonnymq import Queue
from lonnymq.testing import drain
from saas import web
from saas.tasks import app


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
    client.put("/tenants/noisy/limit", json={"max_concurrency": 2})
    for number in range(10):
        upload(client, "noisy", f"document {number}")

    assert len(lonnymq_queue.dequeue(10)) == 2


def test_a_document_that_cannot_be_counted_is_tried_again(client: TestClient) -> None:
    document = upload(client, "acme", "\x1b[2J")

    with pytest.raises(ValueError, match="is not text"):
        drain(app)
    assert words(client, "acme", document) is None
    assert client.get("/backlog", headers={"X-Tenant": "acme"}).json() == {"waiting": 1, "dead": 0}


def test_a_tenant_cannot_read_another_ones_documents(client: TestClient) -> None:
    document = upload(client, "acme", "secret")
    answer = client.get(f"/documents/{document}", headers={"X-Tenant": "bluebird"})
    assert answer.status_code == 404
