"""The overview, fairness, the list of tenants and the page of one: loud, quiet, paused and limited ones."""

import re
import threading
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from lonnymq import NewMessage, Queue
from lonnymq.monitor import what_if
from lonnymq.web import Access, Right, create_app
from tests.web.conftest import PERSON, As

STRANGE = "a/b?c&d='\"<i>ü\u2028"
WAIT_S = 20.0


@pytest.fixture(scope="module", autouse=True)
def tenants(queue: Queue, ann: TestClient) -> None:
    ann.app.state.live.interval = 0.2  # type: ignore[attr-defined]
    queue.enqueue_many(range(300), channel="loud")
    for name in ("quiet", "acme", "paused", "full", STRANGE):
        queue.enqueue_many(range(2), channel=name)
    queue.channel("paused").set(paused=True)
    queue.channel("full").set(max_size=2, weight=3)
    queue.channel("limited").set(max_concurrency=1)
    queue.enqueue_many(range(3), channel="limited")
    queue.enqueue(1, channel="later", delay=3600)
    queue.enqueue(1, channel="broken", lane="broken")
    queue.dispatch()
    dead, *_ = queue.dequeue(1, lanes=["broken"])
    queue.fail(dead, "no")
    queue.dispatch()


def enqueue(queue: Queue, channel: str, lane: str, messages: int) -> None:
    queue.enqueue_many((NewMessage(number, lane=lane) for number in range(messages)), channel=channel)


def serve(queue: Queue, lane: str) -> None:
    queue.dispatch()
    queue.complete_many(queue.dequeue(1, lanes=[lane]))


@pytest.fixture
def wait_for() -> Callable[[Callable[[], Any]], Any]:
    """Wait until it returns something true, at one of the next polls."""
    never = threading.Event()

    def wait(found: Callable[[], Any]) -> Any:
        for _ in range(int(WAIT_S / 0.05)):
            if value := found():
                return value
            never.wait(0.05)
        raise AssertionError("it did not become true")

    return wait


def text_of(page: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))


def tenant(name: str, **values: object) -> str:
    return "/tenant?" + urlencode({"name": name, **values})


def channel(client: TestClient, name: str) -> Any:
    answer = client.get("/api/v1/channel", params={"name": name})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_overview(ann: TestClient, wait_for: Any) -> None:
    def complete() -> Any:
        found = ann.get("/api/v1/overview").json()
        return found if found["is_complete"] and found["queue"] else None

    found = wait_for(complete)  # a poll that took too long reads the rest at the next
    assert found["noisy_count"] == 1
    assert found["loudest"][0]["channel"]["channel"] == "loud"
    assert found["loudest"][0]["channel"]["is_noisy"]
    assert found["loudest"][0]["of_load"] > 0.9
    assert found["queue"]["dead"] == 1
    assert "loud" not in [row["channel"] for row in found["quiet_waiting"]]
    urgent = [one["text"] for one in found["attention"] if one["urgency"] == "now"]
    assert any("No worker is alive, and" in text for text in urgent)
    assert any(text.startswith("full is full: it may hold 2 messages") for text in urgent)
    pages = {one["page"]: one["text"] for one in found["attention"]}
    assert "loud is noisy" in pages["/tenant?name=loud"]
    assert "1 message failed for good" in pages["/dead"]
    shown = text_of(ann.get("/").text)
    assert "1 noisy tenant" in shown
    assert "No worker is alive" in shown
    assert len(ann.get("/api/v1/series").json()) >= 1


def test_the_queue_is_paused(ann: TestClient, client_as: As, queue: Queue, wait_for: Any) -> None:
    assert client_as("reader").patch("/api/v1/queue", json={"paused": True}).status_code == 403
    assert not ann.get("/api/v1/queue").json()["paused"]
    assert "Pause the queue" not in client_as("reader").get("/").text
    assert ann.patch("/api/v1/queue", json={"paused": True}).json()["paused"]
    try:
        shown = wait_for(lambda: "Resume the queue" in (page := ann.get("/").text) and text_of(page))
        assert "The whole queue is paused: nothing is served." in shown
        assert channel(ann, "quiet")["reasons"][0]["reason"] == "queue paused"
    finally:
        assert not ann.patch("/api/v1/queue", json={"paused": False}).json()["paused"]
    assert [one.action for one in queue.audit(limit=2)] == ["queue.resume", "queue.pause"]
    assert {one.outcome for one in queue.audit(limit=2)} == {"done"}


def test_fairness(ann: TestClient, queue: Queue, wait_for: Any) -> None:
    enqueue(queue, "fast", "fast", 250)
    done = threading.Event()

    def serve_all() -> None:
        while not done.wait(0.05):
            serve(queue, "fast")

    def fast_is_served() -> Any:
        found = ann.get("/api/v1/fairness").json()
        return found if any(row["channel"] == "fast" and row["rate"] for row in found["channels"]) else None

    thread = threading.Thread(target=serve_all)
    thread.start()
    try:
        served = wait_for(fast_is_served)
        page = wait_for(lambda: 'class="ribbon"' in (page := ann.get("/fairness").text) and page)
    finally:
        done.set()
        thread.join()
    rows = {row["channel"]: row for row in served["channels"]}
    assert rows["fast"]["rate"] > 0
    assert rows["fast"]["standing"] in {"fair", "above"}  # others compete, in a lane that nobody serves
    assert "paused" not in rows
    column = served["ribbon"][-1]
    assert sum(share for _, share in column["shares"]) + column["others"] == pytest.approx(1)
    assert "Tenants that compete" in text_of(page)
    assert any(row["rate"] is not None for row in channel_points(ann, "fast"))
    assert ann.get("/api/v1/fairness?sort=none").status_code == 422


def channel_points(client: TestClient, name: str) -> Any:
    return client.get("/api/v1/channel/series", params={"name": name}).json()


def test_the_list(ann: TestClient) -> None:
    def names(**query: object) -> list[str]:
        found = ann.get("/api/v1/channels", params={key: str(value) for key, value in query.items()}).json()
        return [row["channel"] for row in found["channels"]]

    everyone = names(sort="name")
    assert everyone == sorted(everyone)
    assert {"loud", "quiet", STRANGE} <= set(everyone)
    assert names()[0] == names(sort="backlog")[0] == "loud"
    assert names(sort="blocked")[0] == "paused"
    assert names(sort="name", limit=2, offset=1) == everyone[1:3]
    assert names(prefix="li") == ["limited"]
    assert names(prefix="none") == []
    shown = ann.get("/tenants", params={"prefix": "a/b?"}).text
    assert "1 to 1 of 1 tenant." in text_of(shown)
    assert "<i>" not in shown
    assert urlencode({"name": STRANGE}) in unescape(shown)
    assert "at its limit" not in text_of(ann.get("/tenants").text).split("limited")[0]
    assert "No tenant has a name that begins with zz" in text_of(ann.get("/tenants?prefix=zz").text)
    assert 'rel="next"' not in shown
    for wrong in ("sort=no", "limit=0", "limit=501", "offset=-1", "prefix=" + "x" * 256):
        assert ann.get(f"/api/v1/channels?{wrong}").status_code == 422
    assert ann.get("/api/v1/channels", params={"prefix": "\0"}).json()["channels"] == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("paused", "The channel is paused. paused has 2 due messages"),
        ("later", "later has no due messages. The next one is scheduled"),
        (STRANGE, "due messages in lane default"),
        ("nobody", "Nothing is known of this tenant"),
    ],
)
def test_why_a_tenant_is_not_served(ann: TestClient, name: str, says: str) -> None:
    page = ann.get(tenant(name))
    assert page.status_code == 200
    assert says in text_of(page.text)
    assert "<i>" not in page.text
    assert channel(ann, name)["is_known"] is (name != "nobody")


def test_names_that_cannot_be(ann: TestClient) -> None:
    for name in ("a\0b", "ü" * 200):
        for path in ("/tenant", "/api/v1/channel", "/api/v1/channel/what-if"):
            assert ann.get(path, params={"name": name}).status_code == 422, (name, path)
        answer = ann.patch("/api/v1/channel", json={"name": name, "paused": True})
        assert answer.status_code == 422
    for path in ("/tenant", "/api/v1/channel?name=", "/api/v1/channel/series"):
        assert ann.get(path).status_code == 422


def test_change_a_tenant(ann: TestClient, client_as: As, queue: Queue) -> None:
    change = {"name": "mine", "max_concurrency": 3, "rate": "20/s", "burst": 5, "max_size": 9, "weight": 2}
    assert client_as("reader").patch("/api/v1/channel", json=change).status_code == 403
    policy = ann.patch("/api/v1/channel", json=change).json()
    assert {name: policy[name] for name in change if name != "name"} == {
        name: value for name, value in change.items() if name != "name"
    }
    entry = queue.audit(limit=1)[0]
    assert (entry.who, entry.action, entry.channel, entry.outcome) == ("ann", "channel.set", "mine", "done")
    assert entry.details == {name: value for name, value in change.items() if name != "name"}
    kept = ann.patch("/api/v1/channel", json={"name": "mine", "rate": "0", "burst": "inherit"}).json()
    assert (kept["rate"], kept["max_concurrency"]) == (None, 3)
    assert kept["burst"] == 1
    assert ann.patch("/api/v1/channel", json={"name": "mine", "paused": True}).json()["paused"]
    assert ">Resume<" in ann.get(tenant("mine")).text
    assert ">Resume<" not in client_as("reader").get(tenant("mine")).text
    assert queue.audit(limit=1)[0].action == "channel.pause"
    for wrong, status in (
        ({}, 200),
        ({"max_concurrency": 3.0}, 200),
        ({"max_concurrency": True}, 422),
        ({"max_concurrency": "3"}, 422),
        ({"rate": "fast"}, 422),
        ({"rate": "1/999999day"}, 422),
        ({"rate": 1e300}, 422),
        ({"max_concurrency": -1}, 422),
        ({"max_concurrency": 10_001}, 422),
        ({"max_size": 2**31}, 422),
        ({"max_concurrency": "many"}, 422),
        ({"burst": 0}, 422),
        ({"weight": 0}, 422),
        ({"weight": "2"}, 422),
        ({"paused": "yes"}, 422),
        ({"max_concurency": 3}, 422),
    ):
        answer = ann.patch("/api/v1/channel", json={"name": "mine", **wrong})
        assert answer.status_code == status, (wrong, answer.text)
    text = ann.patch("/api/v1/channel", content='{"name": "mine"}', headers={"content-type": "text/plain"})
    assert text.json()["hint"] == "send JSON, with the header Content-Type: application/json"
    assert ann.delete("/api/v1/channel").headers["allow"] == "GET, PATCH"
    for broken in ('{"name": "mine", "weight": NaN}', '{"name": "\\ud800", "paused": true}', "{"):
        answer = ann.patch("/api/v1/channel", content=broken, headers={"content-type": "application/json"})
        assert answer.status_code in {400, 422}, answer.text


def test_what_if(ann: TestClient, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if, "MOST_OFF_MS", 1_000_000)  # on a busy machine, all waits are long
    few = ann.get("/api/v1/channel/what-if", params={"name": "quiet", "max_concurrency": 1}).json()
    assert few["refused"]["reason"] == "too few"
    assert "An estimate needs 20 or more" in text_of(ann.get(tenant("quiet", max_concurrency=1)).text)
    queue.channel("busy").set(max_concurrency=1)
    for _ in range(25):
        enqueue(queue, "busy", "busy", 1)
        serve(queue, "busy")
    found = ann.get(
        "/api/v1/channel/what-if", params={"name": "busy", "max_concurrency": 0, "weight": 4}
    ).json()
    assert found["today"]["max_concurrency"] == 1
    assert found["proposed"]["max_concurrency"] is None
    assert found["estimate"]["messages"] == 25
    assert found["estimate"]["proposed"]["p95_ms"] <= found["estimate"]["actual"]["p95_ms"]
    assert 0 < found["share"]["today"] < found["share"]["proposed"] < 1
    page = ann.get(tenant("busy", max_concurrency=0, rate="", weight="")).text
    assert "Simulated, these limits" in text_of(page)
    assert '"max_concurrency": 0' in unescape(page)
    assert "it is not a rate: give one such as 20/s" in text_of(ann.get(tenant("busy", rate="fast")).text)
    assert 'role="alert"' in ann.get(tenant("busy", max_concurrency="many")).text
    assert ann.get("/api/v1/channel/what-if?name=busy&rate=fast").status_code == 422
    assert ann.get("/api/v1/channel/what-if?name=busy&weight=nan").status_code == 422


def test_a_tenant_sees_its_own_channels_only(client_as: As, ann: TestClient) -> None:
    acme = client_as("acme")
    redirected = acme.get("/", follow_redirects=False)
    assert (redirected.status_code, redirected.headers["location"]) == (303, "/tenants")
    found = acme.get("/api/v1/channels").json()
    assert [row["channel"] for row in found["channels"]] == ["acme"]
    assert (found["found"], found["read"]) == (1, 1)
    assert acme.get("/api/v1/channels?prefix=l").json()["channels"] == []
    own = channel(acme, "acme")
    assert own["due"] == channel(ann, "acme")["due"]
    assert own["share"] is own["entitlement"] is own["of_fair"] is own["standing"] is None
    assert (own["reasons"][0]["reason"], own["reasons"][0]["ahead"]) == ("turn", None)
    assert {point["fair_rate"] for point in channel_points(acme, "acme")} <= {None}
    proposed = acme.get("/api/v1/channel/what-if?name=acme&weight=2").json()
    assert proposed["share"] is None
    for page in ("/tenants", tenant("acme")):
        shown = acme.get(page).text
        assert "loud" not in shown
        assert "quiet<" not in shown
    refused = [acme.get("/api/v1/channel", params={"name": name}) for name in ("loud", "nobody")]
    assert [answer.status_code for answer in refused] == [403, 403]
    assert refused[0].text == refused[1].text
    for path in ("/api/v1/overview", "/api/v1/fairness", "/api/v1/series", "/api/v1/queue", "/fairness"):
        assert acme.get(path).status_code == 403, path
    for path in (tenant("loud"), "/api/v1/channel/series?name=loud", "/api/v1/channel/what-if?name=loud"):
        assert acme.get(path).status_code == 403, path
    assert acme.patch("/api/v1/channel", json={"name": "loud", "paused": True}).status_code == 403
    assert acme.patch("/api/v1/queue", json={"paused": True}).status_code == 403
    assert acme.patch("/api/v1/channel", json={"name": "acme", "weight": 1}).status_code == 200


@pytest.fixture
def other(queue: Queue) -> Iterator[As]:
    """People with unusual rights."""
    people = {
        "nothing": Access("nothing", frozenset()).only("acme"),
        "many": Access("many", frozenset({Right.READ})).only(*(f"own-{n:03}" for n in range(300))),
    }
    app = create_app(queue, access=lambda request: people.get(request.headers.get(PERSON, "")))
    yield lambda person: TestClient(app, base_url="http://localhost", headers={PERSON: person})
    app.close()


def test_unusual_rights(other: As) -> None:
    for path in ("/tenants", "/api/v1/channels", tenant("acme")):
        assert other("nothing").get(path).status_code == 403
    found = other("many").get("/api/v1/channels?offset=290&limit=20&sort=oldest").json()
    assert [row["channel"] for row in found["channels"]] == [f"own-{n:03}" for n in range(290, 300)]
    assert (found["sort"], found["found"]) == ("name", 300)
