"""What it costs the database to be watched, and that all is read nevertheless."""

from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lonnymq import Queue
from lonnymq.monitor.poll import WATCHING_SHARE, Focus, Poller
from tests.database import AnyServer, ExternalServer
from tests.large_queue import channel_name, load

INTERVAL_S = 2.0
CORE_SHARE = 0.01
TICK_S = 0.01
POLLS = 120


def cpu_seconds(conn: psycopg.Connection) -> float:
    """The CPU time of the sessions of the poller."""
    sessions = conn.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'poller'").fetchall()
    times = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13] for (pid,) in sessions]
    return sum(int(ticks) for both in times for ticks in both) * TICK_S


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("messages", "channels"),
    [
        pytest.param(20_000, 2_000, marks=pytest.mark.slow),
        pytest.param(1_000_000, 100_000, marks=pytest.mark.long),
    ],
)
def test_a_poller_with_a_share_takes_less_than_one_percent_of_a_core(
    dsn: str, conn: psycopg.Connection, server: AnyServer, messages: int, channels: int
) -> None:
    if isinstance(server, ExternalServer):
        pytest.skip("the CPU time of a server on another machine cannot be read")
    large = load(conn, messages, channels)
    shown = [channel_name(number) for number in range(channels // 2, channels // 2 + 20)]
    with Queue(make_conninfo(dsn, application_name="poller"), listen=False) as queue:
        poller = Poller(queue, INTERVAL_S, dispatches=False, max_share=WATCHING_SHARE)
        found = poller.poll()
        while not found.is_complete:
            found = poller.poll()
        assert len(found.channels) == channels
        assert found.queue is not None
        assert found.queue.waiting == messages
        first, before = found.poll, cpu_seconds(conn)
        for _ in range(POLLS):
            found = poller.poll(Focus(shown))
        spent = cpu_seconds(conn) - before
    assert 0 < spent < CORE_SHARE * POLLS * INTERVAL_S
    assert len([sample for sample in found.history.samples if sample.poll > first]) >= 5
    assert found.channels[large.noisy].history.samples[-1].poll > first, "the largest are read"
    assert all(found.channels[name].history.samples[-1].poll > first for name in shown), (
        "what is shown is read"
    )
    read = sum(channel.history.samples[-1].poll > first for channel in found.channels.values())
    assert read > 500, "more pages are read"
