"""Readers of history whose database went back in time, failed over, or is a standby, on real clusters."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lonnymq.embedded import Server
from lonnymq.errors import PositionUnknown
from lonnymq.install import install
from lonnymq.spark.changes.stream_reader import StreamReader
from tests.database import EMBEDDED_VERSION, create_database
from tests.faults.clusters import (
    SET_BACK,
    catch_up,
    cluster,
    connect,
    copy_stopped,
    dump_and_restore,
    folder,
    make_standby,
    next_xid,
    promote,
    raise_xids,
    set_back,
    started,
)
from tests.isolation.shared_database import until
from tests.spark.change_rows import batches_of, finish, position, stream_reader
from tests.spark.traffic import kill

pytestmark = pytest.mark.slow


@pytest.fixture
def installed() -> Iterator[Path]:
    """The data folder of a stopped server that has a queue."""
    with folder() as path:
        with started(path) as server:
            create_database(server, "queue")
            with connect(server, "queue") as conn:
                install(conn, schema="lonnymq")
                finish(conn, 1)
        yield path


class Readers:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.opened: list[StreamReader] = []

    def __call__(self, server: Server, dbname: str = "queue", view: str = "history") -> StreamReader:
        self.patch.setenv("THE_QUEUE", server.dsn(dbname))
        self.opened.append(stream_reader({"dsnEnv": "THE_QUEUE"}, view))
        return self.opened[-1]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Readers]:
    readers = Readers(monkeypatch)
    yield readers
    for reader in readers.opened:
        reader.stop()


def read(reader: StreamReader, at: dict[str, Any] | None = None) -> tuple[list[int], dict[str, Any]]:
    found: list[int] = []
    at = at or reader.initialOffset()
    for rows, end in batches_of(reader, at):
        found, at = found + [row[1] for row in rows], end
    return found, json.loads(json.dumps(at))


def test_a_backup_from_before_what_was_read(installed: Path, reading: Readers) -> None:
    with folder() as restored:
        copy_stopped(installed, restored)
        with started(installed) as server, connect(server, "queue") as conn:
            finish(conn, 2)
            assert read(reading(server))[0] == [1, 2]
            at = position(conn)
        with started(restored) as server:
            reader = reading(server)
            with pytest.raises(PositionUnknown, match="ahead of the database"):
                read(reader, at)
            assert read(reader)[0] == [1]


@pytest.mark.parametrize("kind", SET_BACK)
def test_a_database_that_went_back_in_time_is_refused(installed: Path, reading: Readers, kind: str) -> None:
    """It has used the transaction ids of the lost rows again, for other rows."""
    at: dict[str, dict[str, Any]] = {}

    def lose(server: Server) -> None:
        with connect(server, "queue") as conn:
            for one in range(2, 12):
                finish(conn, one)
            kill(conn, "a", [b"x"])
        found, at["history"] = read(reading(server))
        assert found == list(range(1, 12))
        _, at["dead_letters"] = read(reading(server, view="dead_letters"))

    with set_back(installed, kind, lose) as server:
        with connect(server, "queue") as conn:
            for one in range(100, 110):
                finish(conn, one)
            dead = kill(conn, "b", [b"y"])
            conn.execute("SELECT dead_retry(%s)", (dead,))
        for view, position_ in at.items():
            with pytest.raises(PositionUnknown):
                read(reading(server, view=view), position_)
        raise_xids(server, next_xid(server) + 1000)
        for view, position_ in at.items():
            with pytest.raises(PositionUnknown, match="it went back to an earlier time") as refused:
                read(reading(server, view=view), position_)
            assert "startingOffsets" in str(refused.value.hint)
        assert read(reading(server))[0] == [1, *range(100, 110)]


def test_a_stream_continues_after_a_failover_that_lost_nothing(installed: Path, reading: Readers) -> None:
    with folder() as copy:
        copy_stopped(installed, copy)
        with started(installed) as primary, connect(primary, "queue") as conn:
            make_standby(copy, primary)
            with started(copy) as standby:
                finish(conn, 2)
                kill(conn, "a", [b"x"])
                found, at = read(reading(primary))
                assert found == [1, 2]
                _, at_dead = read(reading(primary, view="dead_letters"))
                catch_up(standby, primary)
                promote(standby)
                with connect(standby, "queue") as there:
                    finish(there, 3)
                    [dead] = kill(there, "a", [b"y"])
                assert read(reading(standby), at)[0] == [3]
                assert read(reading(standby, view="dead_letters"), at_dead)[0] == [dead]


@pytest.mark.parametrize("is_crash", [False, True], ids=["restart", "crash"])
def test_a_stream_continues_after_a_restart(installed: Path, reading: Readers, *, is_crash: bool) -> None:
    """After a crash, ids of transactions that wrote nothing are used again."""
    with started(installed) as server, connect(server, "queue") as conn:
        finish(conn, 2)
        with conn.transaction(force_rollback=True):
            conn.execute("SELECT pg_current_xact_id()")
        found, at = read(reading(server))
        assert found == [1, 2]
        server.stop("immediate" if is_crash else "fast")
    with started(installed) as server, connect(server, "queue") as conn:
        finish(conn, 3)
        assert read(reading(server), at)[0] == [3]


def test_a_dump_in_another_cluster(installed: Path, reading: Readers) -> None:
    with started(installed) as server, cluster() as target:
        raise_xids(server, 20_000)
        with connect(server, "queue") as conn:
            finish(conn, 2)
            at = position(conn)
        dump_and_restore(server, target, "queue", "queue", EMBEDDED_VERSION)
        with pytest.raises(PositionUnknown, match="not run yet") as refused:
            read(reading(target), at)
        assert refused.value.hint is not None
        with connect(target, "queue") as conn:
            conn.execute(refused.value.hint.removeprefix("give them a new transaction id: ").encode())
        with pytest.raises(PositionUnknown, match="is of another cluster"):
            read(reading(target), at)
        assert sorted(read(reading(target))[0]) == [1, 2]


def test_a_dump_from_before_what_was_read_in_the_same_cluster(installed: Path, reading: Readers) -> None:
    with started(installed) as server, connect(server, "queue") as conn:
        dump_and_restore(server, server, "queue", "queue again", EMBEDDED_VERSION)
        finish(conn, 2)
        found, at = read(reading(server))
        assert found == [1, 2]
        with pytest.raises(PositionUnknown, match="it went back to an earlier time"):
            read(reading(server, "queue again"), at)


def test_a_standby_loses_nothing(installed: Path, reading: Readers) -> None:
    """Although it does not know which transactions are open."""
    with folder() as copy:
        copy_stopped(installed, copy)
        with started(installed) as primary, connect(primary, "queue") as conn:
            make_standby(copy, primary)
            with started(copy) as standby, connect(standby, "queue") as there:
                slow = psycopg.connect(primary.dsn("queue"), options="-c search_path=lonnymq")
                with slow:
                    finish(slow, 2)
                    finish(conn, 3)
                    until(lambda: shows(there, 3), "the standby has the quick one")
                    found, at = read(reading(standby))
                    assert found == [1]
                until(lambda: shows(there, 2), "the standby has the slow one")
                assert sorted(read(reading(standby), at)[0]) == [2, 3]


def shows(conn: psycopg.Connection, id_: int) -> bool:
    return conn.execute("SELECT FROM history WHERE id = %s", (id_,)).rowcount == 1
