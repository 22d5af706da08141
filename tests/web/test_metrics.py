"""Metrics for Prometheus, from the numbers behind the pages."""

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from starlette.testclient import TestClient

from lonnymq import Queue
from lonnymq.web import create_app
from tests.web.conftest import PERSON, As, access_by_header


def test_the_numbers_of_the_queue(ann: TestClient, queue: Queue, client_as: As) -> None:
    queue.enqueue(1, channel="acme")
    queue.enqueue(2, channel="acme", delay=60)
    queue.dispatch()
    answer = ann.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    found = {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in parse(answer.text)
        for sample in family.samples
    }
    assert found["lonnymq_queue_readable", ("lonnymq",)] == 1
    assert found["lonnymq_messages", ("default", "lonnymq", "due")] == 1
    assert found["lonnymq_messages", ("", "lonnymq", "scheduled")] == 1
    assert found["lonnymq_fairness_jain", ("lonnymq",)] == 1
    newer = ann.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    families = parse_openmetrics(newer.text)  # type: ignore[no-untyped-call]
    assert {family.name for family in families} >= {"lonnymq_served", "lonnymq_workers"}
    assert client_as("acme").get("/metrics").status_code == 403
    assert client_as("nobody").get("/metrics").status_code == 403


def test_numbers_that_cannot_be_read(web_dsn: str) -> None:
    with Queue(web_dsn, "nowhere") as queue:
        app = create_app(queue, access=access_by_header)
        client = TestClient(app, base_url="http://localhost", headers={PERSON: "ann"})
        assert 'lonnymq_queue_readable{queue="nowhere"} 0.0' in client.get("/metrics").text
        assert client.get("/healthz").status_code == 503
        app.close()
