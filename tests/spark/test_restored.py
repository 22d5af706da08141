"""Readers by snapshot whose database was restored, or is a standby. These clusters are real ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from lonnymq.embedded import Server, binaries
from lonnymq.errors import PositionUnknown
from lonnymq.install import install
from lonnymq.spark.following import StreamReader
from tests.database import EMBEDDED_VERSION, SETTINGS, create_database
from tests.faults.clusters import cluster, connect, copy_stopped, dump_and_restore, folder, raise_xids
from tests.isolation.arena import until
from tests.spark.following import batches_of, finish, position, stream_reader

pytestmark = pytest.mark.slow


def started(path: Path) -> Server:
    return Server(path, bin_dir=binaries(EMBEDDED_VERSION), settings=SETTINGS)


@pytest.fixture
def installed() -> Iterator[Path]:
    """The folder of a server that has a queue, and does not run."""
    with folder() as path:
        with started(path) as server:
            create_database(server, "queue")
            with connect(server, "queue") as conn:
                install(conn, schema="lonnymq")
                finish(conn, 1)
        yield path


class Reaches:
    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.opened: list[StreamReader] = []

    def __call__(self, server: Server, dbname: str = "queue") -> StreamReader:
        self.patch.setenv("THE_QUEUE", server.dsn(dbname))
        self.opened.append(stream_reader({"dsnEnv": "THE_QUEUE"}))
        return self.opened[-1]


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reaches]:
    reaches = Reaches(monkeypatch)
    yield reaches
    for reader in reaches.opened:
        reader.stop()


def read(reader: StreamReader, at: dict[str, Any] | None = None) -> tuple[list[int], dict[str, Any]]:
    found: list[int] = []
    at = at or reader.initialOffset()
    for rows, end in batches_of(reader, at):
        found, at = found + [row[1] for row in rows], end
    return found, at


def test_a_backup_from_before_what_was_read(installed: Path, reading: Reaches) -> None:
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


def test_a_dump_in_another_cluster(installed: Path, reading: Reaches) -> None:
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
            conn.execute(refused.value.hint.removeprefix("stamp them anew: ").encode())
        with pytest.raises(PositionUnknown, match="of another cluster"):
            read(reading(target), at)
        assert sorted(read(reading(target))[0]) == [1, 2]


def test_a_standby_does_not_tell_what_is_open_and_loses_nothing(installed: Path, reading: Reaches) -> None:
    with folder() as copy:
        copy_stopped(installed, copy)
        with started(installed) as primary, connect(primary, "queue") as conn:
            data = copy / "postgres" / "data"
            with (data / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
                file.write(f"primary_conninfo = '{make_conninfo(primary.dsn('replication'))}'\n")
            (data / "standby.signal").touch()
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
