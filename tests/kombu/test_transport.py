"""The transport in one process: what kombu's calls do to the queue."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import celery
import kombu
import psycopg
import pytest
from kombu.asynchronous.hub import Hub
from kombu.exceptions import ChannelError
from psycopg import sql
from psycopg.conninfo import make_conninfo

import lonnymq.kombu
from lonnymq import Queue
from lonnymq.errors import (
    DatabaseUnreachable,
    InvalidAddress,
    InvalidArgument,
    InvalidChannel,
    InvalidContent,
    NotPermitted,
    SchemaMissing,
)
from lonnymq.install import install, uninstall
from lonnymq.kombu.address import dsn_of
from lonnymq.kombu.topology import Topology
from tests.database import unique_name

Connecting = Callable[..., Any]

lonnymq.kombu.register()


@pytest.fixture
def connection(dsn: str) -> Iterator[Connecting]:
    """Opens connections of kombu. Those with the same options share what they know, as in one process."""
    opened: list[Any] = []

    def open_connection(**options: Any) -> Any:
        made = kombu.Connection(f"lonnymq+{dsn}", transport_options=options)
        opened.append(made)
        return made

    yield open_connection
    for made in opened:
        made.close()


@pytest.fixture
def queue(dsn: str) -> Iterator[Queue]:
    with Queue(dsn) as made:
        yield made


def eventually(condition: Callable[[], Any], seconds: float = 20) -> Any:
    ends_at = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < ends_at, "it did not become true"
        time.sleep(0.01)
    return found


def tenant_of(message: dict[str, Any]) -> str | None:
    return "from-the-body" if "lamp" in message["body"] else None


def test_a_message_has_its_lane_channel_priority_and_time(connection: Connecting, queue: Queue) -> None:
    conn = connection(channel="tests.kombu.test_transport:tenant_of", max_attempts=3)
    orders = conn.SimpleQueue("orders")
    in_an_hour = datetime.now(UTC) + timedelta(hours=1)
    orders.put({"n": 1}, headers={"channel": "acme", "task": "shop.pay", "id": "t1"}, priority=7)
    orders.put({"n": "lamp"}, headers={"eta": in_an_hour.isoformat(), "task": "shop.pay"})
    orders.put({"n": 3}, priority=1000)
    found = {message.channel: message for message in queue.messages(lane="orders")}
    assert found["acme"].priority == 7
    assert found["acme"].headers["task"] == "shop.pay"
    assert found["acme"].headers["task_id"] == "t1"
    assert found["acme"].max_attempts == 3
    assert found["from-the-body"].dequeue_at == pytest.approx(in_an_hour.timestamp() * 1000, abs=1)
    assert found["default"].priority == 100
    queue.reschedule(found["from-the-body"].id)
    got: dict[Any, Any] = {}
    while len(got) < 3:
        message = orders.get(timeout=10)
        got[message.headers.get("channel")] = message
        message.ack()
    assert got["acme"].payload == {"n": 1}
    # A worker that knew the old time would wait for it.
    assert datetime.fromisoformat(got["from-the-body"].headers["eta"]) <= datetime.now(UTC)
    assert queue.stats().waiting == 0


def test_what_a_task_publishes_stays_in_the_channel_of_its_tenant(
    connection: Connecting, queue: Queue
) -> None:
    app = celery.Celery("shop", set_as_current=False)

    @app.task  # type: ignore[untyped-decorator]
    def publish() -> None:
        connection().SimpleQueue("orders").put("a subtask")

    publish.push_request(channel="acme")
    celery._state._task_stack.push(publish)
    try:
        publish.run()
    finally:
        celery._state._task_stack.pop()
        publish.pop_request()
    assert [message.channel for message in queue.messages()] == ["acme"]


def test_a_call_names_its_channel(dsn: str, queue: Queue) -> None:
    app = celery.Celery("shop", broker=f"lonnymq+{dsn}", set_as_current=False)

    @app.task  # type: ignore[untyped-decorator]
    def pay() -> None: ...

    with app:
        pay.apply_async(channel="acme")
        pay.s().set(channel="corner-shop").apply_async(headers={"channel": "other"})
        pay.apply_async()
        with pytest.raises(InvalidChannel, match="7 is not a string"):
            pay.apply_async(channel=7)
    assert sorted(message.channel for message in queue.messages()) == ["acme", "corner-shop", "default"]


def test_acknowledged_rejected_requeued_and_given_back(connection: Connecting, queue: Queue) -> None:
    conn = connection(max_attempts=2)
    orders = conn.SimpleQueue("orders")
    queue.enqueue({"not": "of kombu"}, lane="orders")
    for body in ("ack", "reject", "requeue", "keep"):
        orders.put(body)
    got: dict[Any, Any] = {}
    while len(got) < 4:
        message = orders.get(timeout=10)
        got[message.payload] = message
    assert not got["requeue"].delivery_info["redelivered"]
    got["ack"].ack()
    got["reject"].reject()
    got["requeue"].requeue()
    again = orders.get(timeout=10)
    assert again.payload == "requeue"
    assert again.delivery_info["redelivered"]
    again.requeue()  # its second attempt, and the last one
    dead = sorted(str(message.error) for message in queue.dead.list())
    assert dead[0].startswith("it is not a message of kombu")
    assert dead[1:] == ["rejected by its consumer", "requeued by its consumer"]
    (kept,) = queue.messages(status="leased")
    conn.close()
    (back,) = queue.messages()
    assert (back.id, back.attempts, back.status) == (kept.id, 0, "due")


def test_what_is_not_a_message_of_kombu_becomes_a_dead_letter(connection: Connecting, queue: Queue) -> None:
    with connection().channel() as channel:
        lamps = kombu.Queue("lamps", channel=channel)
        lamps.declare()
        kombu.Producer(channel).publish({"lamp": 1}, routing_key="lamps")
        foreign = [b"\xff", [1], {"body": "", "properties": 1}, {"body": 1, "properties": {}}]
        foreign += [{"body": "a", "properties": {"body_encoding": name}} for name in ("base64", "other")]
        for content in foreign:
            queue.enqueue(content, lane="lamps")
        received: list[Any] = []
        with kombu.Consumer(channel, [lamps], callbacks=[lambda body, _: received.append(body)]):
            channel.connection.client.drain_events(timeout=20)
        assert received == [{"lamp": 1}]
        errors = [dead.error or "" for dead in queue.dead.list()]
        assert len(errors) == len(foreign)
        assert all("not a message of kombu" in error for error in errors)


def test_a_lease_is_extended_while_the_message_is_held(connection: Connecting, queue: Queue) -> None:
    conn = connection(lease=1)
    orders = conn.SimpleQueue("orders")
    orders.put("slow")
    message = orders.get(timeout=10)

    def lease_end() -> int:
        (held,) = queue.messages(status="leased")
        return held.lease_end_at or 0

    first = lease_end()
    eventually(lambda: lease_end() > first + 1000)
    message.ack()
    assert queue.stats().leased == 0
    orders.put("killed")
    assert orders.get(timeout=10).payload == "killed"
    conn.transport.leases.forget()  # as if the process were killed
    assert connection().SimpleQueue("orders").get(timeout=10).delivery_info["redelivered"]


def test_the_prefetch_count_is_kept(connection: Connecting, queue: Queue) -> None:
    conn = connection()
    got: list[Any] = []
    orders = kombu.Queue("orders")
    with conn.Producer() as producer, conn.Consumer([orders], on_message=got.append, prefetch_count=2):
        for number in range(5):
            producer.publish(number, routing_key="orders")
        conn.drain_events(timeout=10)
        with pytest.raises(socket.timeout):
            conn.drain_events(timeout=0.1)
        assert [message.payload for message in got] == [0, 1]
        threading.Thread(target=got[0].ack).start()
        conn.drain_events(timeout=10)
        assert [message.payload for message in got] == [0, 1, 2]
        assert queue.stats().leased == 2
        got[2].channel.basic_ack(got[2].delivery_tag, multiple=True)
        while len(got) < 5:
            conn.drain_events(timeout=10)


def test_a_task_is_acknowledged_before_the_next_one_is_delivered(
    connection: Connecting, queue: Queue
) -> None:
    """Celery acknowledges in the event loop. Its pool `solo` runs a task while it is delivered."""
    conn = connection()
    orders = conn.SimpleQueue("orders")
    for number in range(20):
        orders.put(number)
    hub, left = Hub(), []

    def received(_: int, message: Any) -> None:
        left.append(len(queue.messages()) + len(queue.messages(status="leased")))
        hub.call_soon(message.ack)

    with conn.Consumer([orders.queue], callbacks=[received], prefetch_count=20) as consumer:
        conn.transport.register_with_event_loop(conn.connection, hub)
        ends_at = time.monotonic() + 10
        while len(left) < 19:
            hub.run_once()
            assert time.monotonic() < ends_at, "it waits between messages"
        consumer.cancel()
        eventually(lambda: hub.run_once() or not queue.stats().leased)
        conn.transport.unregister_from_event_loop(conn.connection, hub)
        hub.close()
    assert left == list(range(20, 1, -1))
    (back,) = queue.messages()  # it was leased, and its consumer was cancelled
    assert (back.status, back.attempts) == ("due", 0)


def test_a_statement_that_is_cancelled_is_tried_again(
    connection: Connecting, queue: Queue, conn: psycopg.Connection, dsn: str
) -> None:
    orders = connection(lease=3).SimpleQueue("orders")
    orders.put("x")
    message = orders.get(timeout=10)
    with psycopg.connect(dsn) as locking:
        locking.execute("LOCK lonnymq.message")
        acknowledging = threading.Thread(target=message.ack)
        acknowledging.start()
        cancel = (
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            " AND datname = current_database() AND query LIKE '%message_complete%'"
        )
        eventually(lambda: conn.execute(cancel).fetchone())
        acknowledging.join()
    eventually(lambda: not queue.stats().leased)
    assert queue.stats().waiting == 0


def test_a_forked_process_leaves_the_messages_to_its_parent(connection: Connecting, queue: Queue) -> None:
    conn = connection(lease=60)
    orders = conn.SimpleQueue("orders")
    orders.put("kept")
    message = orders.get(timeout=10)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            message.ack()
            conn.release()
            conn.SimpleQueue("orders").put("from the child")
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert (queue.stats().leased, queue.stats().waiting) == (1, 1)
    message.ack()
    assert queue.stats().leased == 0


def test_counts_purges_and_deletes(connection: Connecting, queue: Queue) -> None:
    conn = connection()
    channel = conn.channel()
    with pytest.raises(ChannelError, match="no queue 'orders'"):
        channel.queue_declare("orders", passive=True)
    orders = conn.SimpleQueue("orders")
    for channel_name in ("acme", "corner-shop"):
        orders.put("x", headers={"channel": channel_name})
    orders.put("later", headers={"eta": "2100-01-01T00:00:00+00:00"})
    assert len(orders) == 2  # those that are due
    assert orders.clear() == 3
    assert len(orders) == 0
    orders.put("x")
    orders.queue.delete(if_empty=True)
    assert len(orders) == 1
    orders.queue.delete()
    assert queue.stats().waiting == 0
    with pytest.raises(ChannelError):
        connection(pool_size=2).channel().queue_declare("orders", passive=True)
    # A task makes its queue. A reply whose queue is gone does not: nobody would ever read it.
    for name, headers in (("new", {"task": "bill"}), ("gone", {})):
        conn.Producer().publish(1, routing_key=name, correlation_id="7", headers=headers)
    assert [message.lane for message in queue.messages()] == ["new"]


def test_processes_agree_on_bindings_and_temporary_queues(
    connection: Connecting, queue: Queue, conn: psycopg.Connection
) -> None:
    one, other = connection(pool_size=2), connection(pool_size=3)  # they share nothing
    events = kombu.Exchange("events", type="topic")
    news = kombu.Exchange("news", type="fanout", durable=False)
    got: list[str] = []
    bound = [
        kombu.Queue("invoices", events, routing_key="invoice.#"),
        kombu.Queue("all", events, routing_key="#"),
        kombu.Queue("mine", news, exclusive=True),
        kombu.Queue("yours", news, auto_delete=True),
    ]
    consumer = one.Consumer(bound, callbacks=[lambda body, _: got.append(body)], no_ack=True)
    with consumer, other.Producer() as producer:
        producer.publish("paid", exchange="events", routing_key="invoice.paid", serializer="json")
        producer.publish("other", exchange="events", routing_key="order.made", serializer="json")
        producer.publish("hello", exchange="news", serializer="json")
        while len(got) < 5:
            one.drain_events(timeout=10)
        assert sorted(got) == ["hello", "hello", "other", "paid", "paid"]
        assert {lane.lane for lane in queue.lanes()} == {"default", "invoices", "all"}
        # A copy for a queue that another process deletes at the same time is dropped.
        topology = other.transport.broker.topology
        topology.declare("leaving", is_temporary=True, expires_ms=None)
        with psycopg.connect(conn.info.dsn, password=conn.info.password) as deleting:
            deleting.execute("DELETE FROM lonnymq_kombu.queue WHERE name = 'leaving'")
            posting = threading.Thread(target=topology.post, args=[["leaving"], b"{}", 0])
            posting.start()
            waiting = (
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%KEY SHARE%'"
            )
            eventually(lambda: conn.execute(waiting).fetchone())
        posting.join()
        # A temporary queue that nobody has touched for a minute is deleted; its consumer makes it again.
        conn.execute("UPDATE lonnymq_kombu.queue SET seen_at = seen_at - INTERVAL '2 minutes'")
        other.channel().queue_declare("another", exclusive=True)
        assert conn.execute("SELECT name FROM lonnymq_kombu.queue WHERE name = 'mine'").fetchall() == []
        one.transport._touch_at = 0
        with pytest.raises(socket.timeout):
            one.drain_events(timeout=0)
        producer.publish("again", exchange="news", serializer="json")
        other.transport.broker.topology.reread()
        producer.publish("again", exchange="news", serializer="json")
        while "again" not in got:
            one.drain_events(timeout=10)


def test_an_event_loop_goes_on_after_the_connections_broke(
    connection: Connecting, conn: psycopg.Connection
) -> None:
    one, other = connection(lease=20), connection(pool_size=2)
    got: list[str] = []
    hub = Hub()

    def received(body: str, message: Any) -> None:
        got.append(body)
        message.ack()
        if body == "first":
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE 'lonnymq%'"
            )
            threading.Thread(target=publish, args=["second"]).start()

    def publish(body: str) -> None:
        with other.Producer() as producer:
            producer.publish(body, routing_key="orders", serializer="json", retry=True)

    with one.Consumer([kombu.Queue("orders")], callbacks=[received], prefetch_count=1):
        one.register_with_event_loop(hub)
        threading.Thread(target=publish, args=["first"]).start()
        try:
            ends_at = time.monotonic() + 20
            while len(got) < 2 and time.monotonic() < ends_at:
                hub.run_once()
        finally:
            one.transport.unregister_from_event_loop(one.connection, hub)
            hub.close()
    assert got[-1] == "second"


def test_what_cannot_work_is_refused(connection: Connecting, dsn: str) -> None:
    with pytest.raises(InvalidContent, match="At most 1048576 bytes"):
        connection().SimpleQueue("orders").put({"x": "x" * 1_100_000})
    with pytest.raises(InvalidAddress):
        kombu.Connection("lonnymq+postgresql://localhost/db?nonsense=1").connect()
    with pytest.raises(DatabaseUnreachable):
        kombu.Connection("lonnymq+postgresql://u@localhost:1/db").connect()
    for options in ({"lease": 0}, {"channel": "nowhere:name"}, {"channel": 7}, {"schema": 58 * "s"}):
        with pytest.raises(InvalidArgument):
            connection(**options).connect()
    with pytest.raises(InvalidArgument, match="no transport option 'leese'") as refused:
        connection(leese=20).connect()
    assert "schema, lease, channel," in str(refused.value)
    assert "interval_start" in str(refused.value)
    retrying = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}
    with connection(**retrying).Producer() as producer:
        producer.publish(
            "x", routing_key="orders", retry=True, retry_policy={**retrying, "retry_errors": None}
        )
    hidden = kombu.Connection("lonnymq+postgresql://u:secret@h1,h2/db?sslpassword=secret&sslmode=require")
    assert hidden.as_uri() == "lonnymq+postgresql://u:**@h1,h2/db?sslpassword=**&sslmode=require"
    url = "lonnymq+postgresql://u%40:s%40%2F%25cret@h/db"
    hidden = kombu.Connection(url)
    assert (
        hidden.clone().info()["hostname"] == "lonnymq+postgresql://u%40@h/db"
    )  # `celery inspect stats` has it
    assert hidden.as_uri() == "lonnymq+postgresql://u%40:**@h/db"
    assert hidden.clone().as_uri(include_password=True) == url
    assert "password=s@/%cret" in dsn_of(hidden)
    assert dsn_of(kombu.Connection("lonnymq+postgresql://h:5/db?user=a@b")).startswith("user=a@b ")


def test_the_first_connection_installs_what_is_missing(dsn: str, conn: psycopg.Connection) -> None:
    conn.execute("CREATE SCHEMA other")
    install(conn, "half")
    with pytest.raises(
        SchemaMissing, match=r'connect once with install=True, .* may create schema "half_kombu"'
    ):
        kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "half", "install": False}).connect()
    with pytest.raises(SchemaMissing):
        kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "shop", "install": False}).connect()
    with kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "shop"}) as made:
        made.SimpleQueue("orders").put("x")
    with Queue(dsn, "shop") as queue:
        assert queue.stats().waiting == 1
        Topology(queue).check()
    refused = pytest.raises(lonnymq.errors.NotPermitted, match="GRANT USAGE ON SCHEMA")
    with Queue(make_conninfo(dsn, options="-c role=pg_monitor"), "shop") as queue, refused:
        Topology(queue).check()


def test_an_uninstall_drops_what_the_transport_created(dsn: str, conn: psycopg.Connection) -> None:
    left = "SELECT nspname FROM pg_namespace WHERE nspname IN ('shop', 'shop_kombu')"
    longest = 63 * "s"
    install(conn, longest)
    uninstall(conn, longest)  # no schema of the transport can belong to it
    with kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "shop"}) as made:
        made.SimpleQueue("orders").put("x")
    conn.execute("CREATE VIEW public.orders AS SELECT name FROM shop_kombu.queue")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist):
        uninstall(conn, "shop")
    assert len(conn.execute(left).fetchall()) == 2, "all of it stays"
    conn.execute("DROP VIEW public.orders; CREATE TABLE shop_kombu.mine ()")
    uninstall(conn, "shop")
    assert conn.execute(left).fetchall() == [("shop_kombu",)], "it has a table of somebody else"
    assert conn.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'shop_kombu'::regnamespace"
    ).fetchall() == [("mine",)]
    install(conn, "shop")
    conn.execute("DROP TABLE shop_kombu.mine")
    with kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "shop"}) as made:
        made.connect()
    uninstall(conn, "shop")
    assert conn.execute(left).fetchall() == []


def test_an_uninstall_by_somebody_who_does_not_own_the_tables(dsn: str, conn: psycopg.Connection) -> None:
    role = unique_name("owner")
    database = conn.info.dbname
    conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
    conn.execute(
        sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(role))
    )
    try:
        with psycopg.connect(dsn, options=f"-c role={role}") as owner:
            install(owner, "shop")
            owner.commit()
            kombu.Connection(f"lonnymq+{dsn}", transport_options={"schema": "shop"}).connect()
            with pytest.raises(NotPermitted, match='the kombu transport in schema "shop_kombu"'):
                uninstall(owner, "shop")
        uninstall(conn, "shop")
    finally:
        conn.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(role)))
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))
