"""The calls of a queue behave the same on every kind of pool and engine."""

import inspect
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lonnymq import AsyncQueue, NewMessage, Queue, errors
from lonnymq.client.consume import QUIET_MS
from lonnymq.commands import Created, Delivery, Result
from tests.database import unique_name
from tests.queues import OWN_POOL, queue_of


@dataclass
class Order:
    number: int


def test_the_life_of_a_message(queue: Any) -> None:
    created = queue.enqueue({"number": 7}, channel="acme", headers={"trace": "abc"})
    assert created.result is Result.CREATED
    (message,) = queue.dequeue(10, lease=60, consumer="me")
    assert (message.id, message.channel, message.attempts) == (created.id, "acme", 1)
    assert message.payload == {"number": 7}
    assert message.decode(Order) == Order(7)
    assert message.headers == {"trace": "abc", "content-type": "application/json"}
    assert queue.get(created.id).status == "leased"
    assert queue.extend(message, timedelta(minutes=5)).lease_end_at > message.lease_end_at
    assert queue.complete(message) is Result.COMPLETED
    assert queue.complete(message) is Result.NOT_FOUND
    assert queue.get(created.id) is None
    assert queue.dequeue(10) == []


def test_a_batch(queue: Any) -> None:
    done = queue.enqueue_many([b"a", "b", {"c": 3}, Order(4)], channel="acme")
    assert (done.created, done.duplicates, done.full, done.total) == (4, 0, 0, 4)
    messages = queue.dequeue(10)
    assert [message.payload for message in messages] == [b"a", "b", {"c": 3}, {"number": 4}]
    assert [extended.result for extended in queue.extend_many(messages, 60)] == [Result.EXTENDED] * 4
    outcomes = queue.complete_many(messages)
    assert [(outcome.id, outcome.result) for outcome in outcomes] == [
        (message.id, Result.COMPLETED) for message in messages
    ]


def test_a_retry_uses_up_an_attempt_only_with_an_error(queue: Any) -> None:
    queue.enqueue("x", max_attempts=2)
    (message,) = queue.dequeue()
    assert queue.retry(message, state=b"halfway") is Result.RETRIED
    (message,) = queue.dequeue()
    assert (message.attempts, message.state) == (1, b"halfway")
    assert queue.retry(message, error="no luck") is Result.RETRIED
    (message,) = queue.dequeue()
    assert (message.attempts, message.state) == (2, b"halfway")
    assert queue.retry(message, error="no luck again") is Result.DEAD
    (dead,) = queue.dead.list(channel="default")
    assert (dead.id, dead.error) == (message.id, "no luck again")
    assert queue.dead.retry([dead.id])[0].result is Result.RETRIED
    (message,) = queue.dequeue()
    assert message.attempts == 1


def test_a_message_that_fails_for_good_is_dead_at_once(queue: Any) -> None:
    queue.enqueue("x", max_attempts=5)
    (message,) = queue.dequeue()
    assert queue.fail(message, KeyError("customer 7"), state=b"halfway") is Result.DEAD
    assert queue.fail(message, "again") is Result.LOST
    (dead,) = queue.dead.list()
    assert (dead.id, dead.attempts, dead.error) == (message.id, 1, "KeyError: 'customer 7'")
    assert queue.dead.retry([dead.id])[0].result is Result.RETRIED
    (message,) = queue.dequeue()
    assert (message.attempts, message.state) == (1, b"halfway")


def test_all_dead_letters_are_retried_or_discarded_at_once(queue: Any) -> None:
    queue.enqueue_many(range(5), channel="acme")
    queue.set(max_attempts=1)
    for message in queue.dequeue(5):
        assert queue.retry(message, error="broken") is Result.DEAD
    assert queue.dead.retry_all(channel="acme", error="bro%").retried == 5
    for message in queue.dequeue(5):
        queue.retry(message, error="broken")
    assert queue.dead.discard([queue.dead.list(limit=1)[0].id])[0].result is Result.DISCARDED
    assert queue.dead.discard_all().discarded == 4
    assert queue.dead.list() == []


def test_a_group_of_dead_letters_is_retried_over_a_time(queue: Any) -> None:
    queue.enqueue_many(range(5), channel="acme")
    for number, message in enumerate(queue.dequeue(5)):
        queue.fail(message, f"no route to host {number}" if number else "broken")
    group, other = queue.dead.groups()
    assert (group.pattern, group.messages, group.channels, group.has_more) == (
        "no route to host #",
        4,
        1,
        False,
    )
    assert [found.messages for found in queue.dead.groups(channel="acme", by_channel=True, limit=1)] == [4]
    chosen = {"fingerprint": group.fingerprint, "spread": timedelta(minutes=4)}
    assert queue.dead.retry_all(**chosen, dry_run=True).retried == 4
    assert len(queue.dead.list(fingerprint=group.fingerprint)) == 4
    assert queue.dead.retry_all(**chosen).retried == 4
    assert queue.dead.retry_all(**chosen).retried == 0
    (first,) = queue.dequeue(5)
    waiting = [found.dequeue_at - queue.get(first.id).dequeue_at for found in queue.messages()]
    assert waiting == [60_000, 120_000, 180_000]
    assert queue.dead.discard_all(fingerprint=other.fingerprint).discarded == 1
    with pytest.raises(errors.InvalidTime, match="a spread of -1000 ms is out of range"):
        queue.dead.retry_all(spread=-1)
    with pytest.raises(errors.InvalidQuery, match="List the groups of dead letters"):
        queue.dead.retry_all(fingerprint="broken")


def test_cancel_and_reschedule(queue: Any) -> None:
    later = queue.enqueue("later", run_at=datetime.now(UTC) + timedelta(days=1))
    assert queue.dequeue() == []
    assert [listed.id for listed in queue.messages(status="scheduled")] == [later.id]
    assert queue.reschedule(later.id) is Result.RESCHEDULED
    (message,) = queue.dequeue()
    assert queue.cancel(message.id) is Result.MARKED
    assert queue.complete(message) is Result.CANCELLED
    assert queue.cancel(message.id) is Result.NOT_FOUND


def test_channels(queue: Any) -> None:
    acme = queue.channel("acme")
    assert acme.set(max_concurrency=1, rate=0, max_size=2).max_concurrency == 1
    assert acme.get().max_size == 2
    assert [queue.enqueue(n, channel="acme").result for n in range(2)] == [Result.CREATED] * 2
    with pytest.raises(errors.ChannelFull, match=r"channel 'acme' is full .*on_full=\"return\""):
        queue.enqueue(2, channel="acme")
    assert queue.enqueue(2, channel="acme", on_full="return") == Created(None, Result.FULL)
    assert len(queue.dequeue(10)) == 1
    assert acme.stats().blocked_by == "concurrency"
    assert [(one.lane, one.due, one.reason) for one in acme.explain()] == [("default", 1, "concurrency")]
    assert [(one.channel, one.leased) for one in queue.channels()] == [("acme", 1)]
    assert acme.delete().result is Result.NOT_EMPTY
    assert acme.delete(with_messages=True).result is Result.DELETED


def test_what_the_queue_sets_for_its_channels(queue: Any) -> None:
    acme = queue.channel("acme")
    settings = queue.set(channel_max_concurrency=2, channel_rate="30/s", channel_burst=5, channel_max_size=3)
    assert (settings.channel_rate, settings.channel_burst, settings.channel_max_size) == ("30/s", 5, 3)
    policy = acme.get()
    assert (policy.max_concurrency, policy.rate, policy.burst, policy.max_size) == (2, "30/s", 5, 3)
    assert policy.inherited == ["max_concurrency", "rate", "burst", "max_size"]
    policy = acme.set(max_concurrency=0, rate=0.5, max_size=None)
    assert (policy.max_concurrency, policy.rate, policy.max_size) == (None, "30/min", 3)
    assert policy.inherited == ["burst", "max_size"]
    policy = acme.set(max_concurrency="inherit", rate="inherit", burst=7)
    assert (policy.max_concurrency, policy.rate, policy.burst) == (2, "30/s", 7)
    assert policy.inherited == ["max_concurrency", "rate", "max_size"]
    assert queue.set(channel_rate=0).channel_rate is None
    assert acme.get().rate is None


def test_settings_and_statistics(queue: Any) -> None:
    assert queue.set(lease=45, history=True, history_content=True).lease_ms == 45_000
    assert queue.settings().history is True
    queue.enqueue({"a": 1}, channel="acme", dedupe_key="k")
    queue.enqueue("other", channel="bluebird")
    assert queue.enqueue("twice", channel="acme", dedupe_key="k").result is Result.DUPLICATE
    for message in queue.dequeue(2):
        queue.complete(message)
    queue.dequeue()
    assert queue.stats().served == 2
    assert {finished.channel for finished in queue.history()} == {"acme", "bluebird"}
    (finished,) = queue.history(channel="acme", since=datetime.now(UTC) - timedelta(hours=1))
    assert (finished.outcome, finished.payload, finished.dedupe_key) == ("completed", {"a": 1}, "k")
    assert queue.history(since=datetime.now(UTC) + timedelta(hours=1)) == []
    assert queue.maintain() >= 0


def test_content_that_the_history_did_not_keep(own_queue: Any) -> None:
    own_queue.set(history=True)
    own_queue.enqueue("x")
    own_queue.complete(*own_queue.dequeue())
    with pytest.raises(errors.BrokenContent, match="history_content=True"):
        own_queue.history()[0].payload  # noqa: B018


def test_higher_priorities_are_delivered_first(own_queue: Any) -> None:
    for value, options in {"last": {"priority": -100}, "usual": {}, "high": {"priority": 100}}.items():
        own_queue.enqueue(value, **options)
    found = [(message.payload, message.priority) for message in own_queue.dequeue(3)]
    assert found == [("high", 100), ("usual", 0), ("last", -100)]


def test_a_dequeue_after_a_pause_sees_new_messages_in_order(own_queue: Any) -> None:
    """It dispatches before it dequeues; otherwise it would always be one call behind."""
    own_queue.enqueue_many(["1", "2", "3"], channel="a")
    assert [message.payload for message in own_queue.dequeue()] == ["1"]
    for value in ("high", "higher"):
        own_queue.enqueue(value, channel="a", priority=len(value))
        time.sleep(2 * QUIET_MS / 1000)
        assert [message.payload for message in own_queue.dequeue()] == [value]


def test_a_new_weight_does_not_starve_other_channels(own_queue: Any) -> None:
    own_queue.enqueue_many([NewMessage("x", channel=name) for name in "ab" * 20])
    own_queue.dequeue(4)
    own_queue.channel("a").set(weight=2)
    time.sleep(2 * QUIET_MS / 1000)
    channels = [message.channel for message in own_queue.dequeue(9)]
    assert 5 <= channels.count("a") <= 7


def test_a_priority_survives_a_retry_and_works_with_a_delay(own_queue: Any, conn: psycopg.Connection) -> None:
    own_queue.enqueue("usual")
    own_queue.enqueue("urgent", priority=1, delay=0)
    own_queue.enqueue("later", priority=100, delay=60)
    for _ in range(3):
        (message,) = own_queue.dequeue()
        assert (message.payload, message.priority) == ("urgent", 1)
        own_queue.retry(message, error="again", delay=0)
        conn.execute("SELECT dispatch()")
    assert [own_queue.dequeue()[0].payload for _ in range(2)] == ["urgent", "usual"]
    assert own_queue.dequeue() == []


def test_lanes(own_queue: Any) -> None:
    own_queue.enqueue("one")
    own_queue.enqueue("two", lane="slow", cost=7)
    own_queue.enqueue_many([NewMessage("three", lane="slow", cost=2), "four"])
    taken = own_queue.dequeue(10, lanes=["slow", "nobody's"])
    assert [(message.payload, message.lane) for message in taken] == [("two", "slow"), ("three", "slow")]
    assert [message.cost for message in taken] == [7, 2]
    assert {lane.lane: lane.waiting for lane in own_queue.lanes()} == {"default": 2, "slow": 0}
    assert [message.payload for message in own_queue.dequeue(10)] == ["one", "four"]


def test_reschedule_to_the_front(own_queue: Any) -> None:
    for value in ("a", "b", "c"):
        own_queue.enqueue(value)
    own_queue.reschedule(3, first=True)
    assert [own_queue.dequeue()[0].payload for _ in range(3)] == ["c", "a", "b"]
    with pytest.raises(errors.InvalidTime, match="first"):
        own_queue.reschedule(3, first=True, delay=5)


def test_a_channel_with_a_weight(own_queue: Any) -> None:
    heavy, light = own_queue.channel("heavy"), own_queue.channel("light")
    assert light.get().weight == 1
    assert heavy.set(weight=3).weight == 3
    own_queue.enqueue_many(
        NewMessage(n, channel=channel) for channel in ("light", "heavy") for n in range(40)
    )
    served = [message.channel for message in own_queue.dequeue(20)]
    assert 14 <= served.count("heavy") <= 16
    for weight in ("2", True, float("nan"), 0, 1001):
        with pytest.raises(errors.InvalidChannelPolicy):
            heavy.set(weight=weight)


def test_a_delay_uses_the_clock_of_the_database(own_queue: Any, conn: psycopg.Connection) -> None:
    created = own_queue.enqueue("x", delay=timedelta(hours=1))
    (row,) = conn.execute(
        "SELECT dequeue_at - created_at FROM message WHERE id = %s", (created.id,)
    ).fetchall()
    assert 3_590_000 <= row[0] < 3_660_000


@pytest.mark.parametrize(
    "options",
    [
        {"run_at": datetime(2030, 1, 1)},  # noqa: DTZ001
        {"delay": -1},
        {"delay": float("nan")},
        {"run_at": datetime.now(UTC), "delay": 5},
    ],
)
def test_invalid_times(own_queue: Any, options: dict[str, Any]) -> None:
    with pytest.raises(errors.InvalidTime) as caught:
        own_queue.enqueue("x", **options)
    assert caught.value.hint
    assert own_queue.stats().waiting == 0


def test_a_message_that_cannot_be_decoded_can_be_retried_or_completed(own_queue: Any) -> None:
    own_queue.enqueue(b"{", headers={"content-type": "application/json"})
    own_queue.enqueue(b"<a/>", headers={"content-type": "text/xml"})
    broken, unknown = own_queue.dequeue(2)
    with pytest.raises(errors.BrokenContent):
        broken.payload  # noqa: B018
    with pytest.raises(errors.UnknownContentType):
        unknown.payload  # noqa: B018
    assert own_queue.retry(broken, error="unreadable") is Result.RETRIED
    assert own_queue.complete(unknown) is Result.COMPLETED


def test_messagepack(own_queue: Any) -> None:
    own_queue.enqueue({"n": 1}, content_type="application/msgpack")
    own_queue.enqueue({"n": 2}, headers={"content-type": "application/msgpack"})
    messages = own_queue.dequeue(2)
    assert [message.payload for message in messages] == [{"n": 1}, {"n": 2}]
    assert {message.content[:1] for message in messages} == {b"\x81"}


def test_dequeue_refuses_a_connection_and_says_why(own_queue: Any, conn: psycopg.Connection) -> None:
    with pytest.raises(errors.UnsuitableConnection, match="commits at once"):
        own_queue.dequeue(conn=conn)


def test_errors_have_a_type_and_a_hint(queue: Any) -> None:
    with pytest.raises(errors.InvalidChannel) as caught:
        queue.enqueue("x", channel="")
    assert caught.value.hint
    with pytest.raises(errors.InvalidLimit):
        queue.dequeue(0)
    for lanes in ("slow", [7]):
        with pytest.raises(errors.InvalidField):
            queue.dequeue(lanes=lanes)
    with pytest.raises(errors.NotEncodable):
        queue.enqueue(object())
    assert queue.stats().waiting == 0


def test_a_delivery_is_immutable(own_queue: Any) -> None:
    own_queue.enqueue("x")
    (message,) = own_queue.dequeue()
    assert isinstance(message, Delivery)
    with pytest.raises(AttributeError):
        message.id = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"channel": 7}, errors.InvalidChannel),
        ({"headers": ["a"]}, errors.InvalidField),
        ({"headers": {"at": datetime.now(UTC)}}, errors.NotEncodable),
        ({"run_at": "2030-01-01"}, errors.InvalidTime),
        ({"delay": "5m"}, errors.InvalidTime),
        ({"delay": 1e300}, errors.InvalidTime),
        ({"priority": 1.5}, errors.InvalidField),
        ({"priority": True}, errors.InvalidField),
        ({"priority": 101}, errors.InvalidField),
        ({"cost": 0}, errors.InvalidField),
        ({"cost": "5"}, errors.InvalidField),
        ({"lane": 7}, errors.InvalidField),
        ({"lane": ""}, errors.InvalidField),
        ({"lane": "x" * 256}, errors.InvalidField),
    ],
)
def test_invalid_options_are_refused(
    own_queue: Any, options: dict[str, Any], error: type[errors.LonnyMQError]
) -> None:
    with pytest.raises(error):
        own_queue.enqueue("x", **options)
    with pytest.raises(error):
        own_queue.enqueue_many([NewMessage("x", **options)])


def test_enqueue_refuses_a_new_message(own_queue: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="enqueue_many"):
        own_queue.enqueue(NewMessage("x", channel="acme"))


def test_a_negative_wait_is_refused(own_queue: Any) -> None:
    with pytest.raises(errors.InvalidTime):
        own_queue.dequeue(wait=-1)


def test_bytes_with_a_content_type(own_queue: Any) -> None:
    own_queue.enqueue(b"<a/>", content_type="application/xml")
    (message,) = own_queue.dequeue()
    assert (message.content, message.content_type) == (b"<a/>", "application/xml")


def test_an_exception_can_be_given_as_the_error(own_queue: Any) -> None:
    own_queue.enqueue_many(["a", "b"])
    one, other = own_queue.dequeue(2)
    own_queue.retry(one, error=ValueError("no such article"))
    own_queue.retry_many(iter([other]), delay=60, error=KeyError("x"))
    assert own_queue.get(one.id).error == "ValueError: no such article"
    assert own_queue.get(other.id).error == "KeyError: 'x'"
    assert own_queue.get(other.id).status == "scheduled"


def test_cancel_many(own_queue: Any) -> None:
    ids = [own_queue.enqueue(n).id for n in range(3)]
    assert [outcome.result for outcome in own_queue.cancel_many(iter(ids))] == [Result.CANCELLED] * 3


def test_calls_show_their_parameters() -> None:
    for kind in (Queue, AsyncQueue):
        assert list(inspect.signature(kind.enqueue).parameters)[:2] == ["payload", "channel"]
        assert "priority" in inspect.signature(kind.enqueue).parameters
        assert "options" not in inspect.signature(kind.enqueue).parameters


@pytest.mark.parametrize("kind", OWN_POOL)
def test_leased_messages_are_returned_even_if_the_dispatch_fails(
    dsn: str, conn: psycopg.Connection, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A role that may dequeue but not dispatch gets an error, but never when it has leased messages."""
    monkeypatch.setattr("lonnymq.client.base.QUIET_MS", 60_000)  # from the second call on, it dequeues first
    role = unique_name("lonnymq_no_dispatch")
    conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        conn.execute(f"GRANT USAGE ON SCHEMA lonnymq TO {role}")
        conn.execute(f"GRANT EXECUTE ON FUNCTION message_dequeue TO {role}")
        with Queue(dsn) as producer:
            producer.enqueue_many(["a", "b"])
            producer.dequeue()
        with queue_of(kind, make_conninfo(dsn, user=role, password="x")) as queue:  # noqa: S106
            with pytest.raises(errors.NotPermitted):
                queue.dequeue(10)
            (message,) = queue.dequeue(10)
            assert message.payload == "b"
            with pytest.raises(errors.NotPermitted):
                queue.dequeue(10)
    finally:
        conn.execute(f"DROP OWNED BY {role}")
        conn.execute(f"DROP ROLE {role}")
