"""Tables of the lake in both formats, without Spark: positions, commits at once, maintenance, faults."""

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lonnymq.spark.columns import HISTORY, TYPES
from lonnymq.spark.lake.find_lake import open_lake
from lonnymq.spark.lake.identity import settle_identity
from lonnymq.spark.lake.lake_table import (
    DAY,
    FILE_BYTES,
    SOURCE,
    LakeConflict,
    LakeNotWritable,
    LakeTable,
    LakeUnsuitable,
    Position,
    TableOptions,
    WrittenFile,
)
from lonnymq.spark.lake.maintain_lake import expire, optimize
from lonnymq.spark.lake.parquet_files import write_by_day
from tests.cli.running import run

FORMATS = ["delta", "iceberg"]
NOW = datetime.now(UTC)
SCHEMA = pa.schema([(name, TYPES[name].arrow) for name in HISTORY.names])


@pytest.fixture(params=FORMATS)
def table_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def lake(tmp_path: Path, table_format: str) -> "WrittenLake":
    return WrittenLake(tmp_path / "my lake", table_format)


class WrittenLake:
    """A lake with a table `history`, into which a test writes rows."""

    def __init__(self, path: Path, table_format: str) -> None:
        self.path, self.format = path, table_format

    def open(self) -> LakeTable:
        options = TableOptions(f"{self.path}/history", "here", HISTORY.schema(), "finished_at")
        with open_lake(str(self.path), self.format, must_exist=False) as found:
            return found.open(options)

    def write(self, ids: list[int], back: int = 0) -> list[WrittenFile]:
        """Write a file with rows that finished so many days ago."""
        rows = [{"id": id_, "finished_at": NOW - timedelta(days=back)} for id_ in ids]
        batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
        written = write_by_day([batch], f"{self.path}/history", "finished_at")
        return [WrittenFile(**row) for one in written for row in one.to_pylist()]

    def add(self, ids: list[int], upto: int, back: int = 0) -> None:
        table = self.open()
        table.commit(self.write(ids, back), Position(upto, upto + 1000))

    def position(self) -> int | None:
        found = self.open().position()
        assert found is None or found.mark == found.xid + 1000
        return None if found is None else found.xid

    def ids(self) -> list[int]:
        return sorted(self.rows()["id"].to_pylist())

    def rows(self) -> pa.Table:
        if self.format == "delta":
            return DeltaTable(f"{self.path}/history").to_pyarrow_table()
        return self.table().scan().to_arrow()

    def files(self) -> int:
        if self.format == "delta":
            return len(DeltaTable(f"{self.path}/history").file_uris())
        return len(list(self.table().scan().plan_files()))

    def table(self) -> Any:
        """The table of pyiceberg."""
        return self.open().table  # type: ignore[attr-defined]

    def on_disk(self) -> int:
        return len(list(self.path.glob("history/day=*/*.parquet")))


def test_150_commits_become_one_file_per_day(lake: WrittenLake) -> None:
    commits = 150 if lake.format == "delta" else 15  # each takes pyiceberg 0.2 s
    for number in range(commits):
        lake.add([number], number + 1, back=number % 3)
    assert lake.files() == commits
    [done] = optimize(str(lake.path))
    assert (done.table, done.files_before, done.files_after) == ("history", commits, 3)
    assert (lake.files(), lake.ids(), lake.position()) == (3, list(range(commits)), commits)
    [again] = optimize(str(lake.path))
    assert (again.files_before, again.files_after) == (3, 3)
    lake.add([commits], commits + 1)
    assert (lake.ids(), lake.position()) == (list(range(commits + 1)), commits + 1)


def test_files_of_the_wanted_size_stay(lake: WrittenLake) -> None:
    for number in range(4):
        lake.add([number], number + 1)
    size = max(file.stat().st_size for file in lake.path.glob("history/day=*/*.parquet"))
    [done] = optimize(str(lake.path), file_bytes=size * 2 + 1)
    assert (done.files_before, done.files_after) == (4, 2)
    [done] = optimize(str(lake.path), file_bytes=1)
    assert (done.files_before, done.files_after) == (2, 2)
    assert lake.ids() == [0, 1, 2, 3]


def test_of_two_archives_at_once_one_is_refused(lake: WrittenLake) -> None:
    for start in (0, 1):  # in a new table too
        first, second = lake.open(), lake.open()
        first.position(), second.position()
        first.commit(lake.write([start]), Position(start + 1, start + 1001))
        with pytest.raises(LakeConflict, match="another archive has committed"):
            second.commit(lake.write([start]), Position(start + 1, start + 1001))
        assert (lake.ids(), lake.position()) == (list(range(start + 1)), start + 1)


@pytest.mark.parametrize("is_archive_first", [True, False])
def test_an_archive_and_maintenance_at_once(lake: WrittenLake, is_archive_first: bool) -> None:
    """Each of them continues on top of the other. Nothing is lost or twice."""
    for number in range(4):
        lake.add([number], number + 1, back=number)
    lake.add([4], 5)
    archiving, optimizing, expiring = lake.open(), lake.open(), lake.open()
    written = lake.write([5])
    calls: list[Callable[[], object]] = [
        lambda: archiving.commit(written, Position(6, 1006)),
        lambda: optimizing.optimize(FILE_BYTES),
        lambda: expiring.expire((NOW - timedelta(days=1)).date(), timedelta(days=7), is_dry_run=False),
    ]
    for call in calls if is_archive_first else reversed(calls):
        call()
    assert (lake.ids(), lake.position()) == ([0, 1, 4, 5], 6)


def test_what_expires_is_gone_and_the_position_stays(lake: WrittenLake) -> None:
    for number in range(6):
        lake.add([number], number + 1, back=5 - number)
    left = lake.write([99])  # by an archive that was killed
    young = lake.write([98])
    week_ago = (NOW - timedelta(days=8)).timestamp()
    os.utime(lake.path / "history" / left[0].path, (week_ago, week_ago))
    keep = timedelta(days=2)
    for _ in range(2):
        [found] = expire(str(lake.path), keep, is_dry_run=True)
        assert (found.rows, found.days, found.files, found.deleted_files) == (3, 3, 3, 1)
        assert (lake.ids(), lake.on_disk()) == ([0, 1, 2, 3, 4, 5], 8)
    [done] = expire(str(lake.path), keep)
    assert (done.rows, done.days, done.files, done.deleted_files) == (3, 3, 3, 1)
    assert (lake.ids(), lake.position(), lake.on_disk()) == ([3, 4, 5], 6, 7)
    assert (lake.path / "history" / young[0].path).exists()
    [done] = expire(str(lake.path), keep, unused_for=timedelta())
    assert (done.rows, lake.ids(), lake.position(), lake.on_disk()) == (0, [3, 4, 5], 6, 3)
    lake.add([6], 7)
    assert (lake.ids(), lake.position()) == ([3, 4, 5, 6], 7)


@pytest.mark.parametrize("to", ["version", "time", "time, by Spark"])
def test_a_table_that_went_back_to_an_older_version(lake: WrittenLake, to: str) -> None:
    """It has the position of that version, also after maintenance."""
    for number in range(4):
        lake.add([number], number + 1)
    optimize(str(lake.path))
    go_back(lake, 2, to)
    assert (lake.ids(), lake.position()) == ([0, 1], 2)
    optimize(str(lake.path))
    expire(str(lake.path), timedelta(days=1), unused_for=timedelta())
    assert (lake.files(), lake.position()) == (1, 2)
    lake.add([2, 3], 4)
    assert (lake.ids(), lake.position()) == ([0, 1, 2, 3], 4)


def go_back(lake: WrittenLake, commits: int, to: str) -> None:
    if lake.format == "delta":
        table = DeltaTable(f"{lake.path}/history")
        if to == "version":
            table.restore(commits)
        else:
            log = lake.path / "history" / "_delta_log" / f"{commits:020}.json"
            table.restore(datetime.fromtimestamp(log.stat().st_mtime, UTC) + timedelta(milliseconds=1))
        if to == "time, by Spark":  # which writes the time in another way
            log = max(log.parent.glob("*.json"))
            changes = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
            [info] = [change["commitInfo"] for change in changes if "commitInfo" in change]
            info["operationParameters"] = {"version": None, "timestamp": "2030-01-01 00:00:00.0"}
            log.write_text("\n".join(map(json.dumps, changes)), encoding="utf-8")
        return
    table = lake.table()
    snapshot = sorted(table.snapshots(), key=lambda one: one.sequence_number)[commits - 1]
    change = table.manage_snapshots()
    if to == "version":
        change.rollback_to_snapshot(snapshot.snapshot_id).commit()
    else:
        change.rollback_to_timestamp(snapshot.timestamp_ms + 1).commit()


def test_snapshots_that_another_program_expired(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path / "lake", "iceberg")
    for number in range(3):
        lake.add([number], number + 1)
    table = lake.table()
    table.delete("id = 1")  # by another program, which does not know about positions
    assert lake.position() == 3
    old = [one.snapshot_id for one in table.snapshots() if one != table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert (lake.position(), lake.ids()) == (3, [0, 2])


def test_a_table_of_an_older_version_gets_the_columns_it_lacks(lake: WrittenLake) -> None:
    """And the older version goes on, and leaves them null."""
    left_out = ["lane", "headers"]
    older = TableOptions(f"{lake.path}/history", "here", HISTORY.without(left_out).schema(), "finished_at")

    def add(id_: int) -> None:
        batch = pa.RecordBatch.from_pylist([{"id": id_, "finished_at": NOW}], SCHEMA)
        written = write_by_day([batch.drop_columns(left_out)], older.uri, "finished_at")
        files = [WrittenFile(**row) for one in written for row in one.to_pylist()]
        with open_lake(str(lake.path), lake.format, must_exist=False) as found:
            found.open(older).commit(files, Position(id_, id_ + 1000))

    add(1)
    lake.add([2], 2)
    add(3)
    for _ in range(2):
        assert lake.rows()["lane"].to_pylist() == [None, None, None]
        optimize(str(lake.path))
    assert (lake.files(), lake.ids(), lake.position()) == (1, [1, 2, 3], 3)


def test_a_lake_has_one_format(lake: WrittenLake) -> None:
    lake.add([1], 1)
    other = next(name for name in FORMATS if name != lake.format)
    with (
        pytest.raises(LakeUnsuitable, match=f"have the format {lake.format}, not {other}"),
        open_lake(str(lake.path), other),
    ):
        pass
    with open_lake(str(lake.path)) as found:
        assert (found.format, found.names()) == (lake.format, ["history"])
        with pytest.raises(LakeUnsuitable, match="no archived table"):
            found.table("elsewhere")
    with pytest.raises(LakeUnsuitable, match="there is no archive in"):
        optimize(str(lake.path.parent / "elsewhere"))


def test_the_commands(lake: WrittenLake) -> None:
    for number in range(3):
        lake.add([number], number + 1, back=100 * (number // 2))
    done = run("spark", "optimize", str(lake.path))
    assert (done.code, done.stdout) == (0, "history: 3 files, now 2\n")
    [table] = json.loads(run("spark", "optimize", str(lake.path), "--json").stdout)["tables"]
    assert table == {"table": "history", "files_before": 2, "files_after": 2}
    wanted = ["spark", "expire", str(lake.path), "--keep", "90d"]
    done = run(*wanted, "--dry-run")
    assert (done.code, done.stdout) == (0, "history: would remove 1 row of 1 day, delete 0 unused files\n")
    refused = run(*wanted)
    assert (refused.code, lake.ids()) == (2, [0, 1, 2])
    assert "--yes" in refused.stderr
    [table] = json.loads(run(*wanted, "--yes", "--json").stdout)["tables"]
    assert table == {"table": "history", "rows": 1, "days": 1, "files": 1, "deleted_files": 0}
    assert (lake.ids(), lake.position()) == ([0, 1], 3)
    refused = run("spark", "expire", str(lake.path), "--yes")
    assert (refused.code, "give --keep" in refused.stderr) == (2, True)
    refused = run("spark", "expire", str(lake.path), "--keep", "1h", "--yes")
    assert (refused.code, refused.stderr.count("\n")) == (1, 1)
    assert "at least a day" in refused.stderr


def test_a_lake_that_is_moved_or_copied(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path / "lake", "delta")
    lake.add([1], 1)
    identity = settle_identity(lake.open())
    moved = WrittenLake(lake.path.rename(tmp_path / "moved"), "delta")
    for _ in range(2):
        assert settle_identity(moved.open()) == identity
    linked = WrittenLake(tmp_path / "link", "delta")
    linked.path.symlink_to(moved.path)
    assert settle_identity(linked.open()) == identity
    assert settle_identity(moved.open()) == identity
    lake = WrittenLake(tmp_path / "lake", "delta")
    lake.add([1], 1)
    identity = settle_identity(lake.open())
    copied = WrittenLake(Path(shutil.copytree(lake.path, tmp_path / "copied")), "delta")
    own = settle_identity(copied.open())
    assert own != identity
    DeltaTable(copied.path / "history").restore(1)
    assert settle_identity(copied.open()) == own
    assert settle_identity(lake.open()) == identity


def test_a_table_of_an_older_version_gets_an_identity(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path, "delta")
    older = SCHEMA.append(pa.field(DAY, pa.date32()))
    DeltaTable.create(
        str(tmp_path / "history"),
        older,
        partition_by=[DAY],
        configuration={SOURCE: "here"},
        raise_if_key_not_exists=False,
    )
    first = settle_identity(lake.open())
    assert (settle_identity(lake.open()), lake.open().folder) == (first, f"{tmp_path}/history")
    assert DeltaTable(tmp_path / "history").version() == 1


def test_an_iceberg_lake_cannot_be_moved(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path / "lake", "iceberg")
    lake.add([1], 1)
    assert settle_identity(lake.open()) == settle_identity(lake.open())
    shutil.copytree(lake.path, tmp_path / "copied")
    with pytest.raises(LakeUnsuitable, match="Iceberg records full paths"):
        WrittenLake(tmp_path / "copied", "iceberg").open()


def test_a_catalog_that_does_not_know_the_table(tmp_path: Path) -> None:
    lake = WrittenLake(tmp_path / "lake", "iceberg")
    lake.open()
    (lake.path / "catalog.db").unlink()  # as if it had been killed before it was in the catalog
    lake.add([1], 1)
    assert lake.ids() == [1]
    lake.table().transaction().set_properties({"commit.retry.num-retries": "4"}).commit_transaction()
    assert lake.table().properties["commit.retry.num-retries"] == "0"
    other = {"type": "sql", "uri": f"sqlite:///{tmp_path}/other.db"}
    options = TableOptions(f"{lake.path}/history", "here", HISTORY.schema(), "finished_at")
    with (
        pytest.raises(LakeUnsuitable, match="the catalog does not know"),
        open_lake(str(lake.path), catalog=other) as found,
    ):
        found.open(options)
    elsewhere = replace(options, uri=f"{tmp_path}/elsewhere/history")
    with open_lake(str(tmp_path / "elsewhere"), "iceberg", other, must_exist=False) as found:
        found.open(elsewhere)
    with open_lake(str(tmp_path / "elsewhere"), catalog=other) as found:
        assert found.names() == ["history"]


@pytest.fixture
def limit_files() -> Iterator[Callable[[int], None]]:
    """Limit the size of files that this process writes, so that writing fails as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_no_room_for_files_or_for_the_commit(lake: WrittenLake, limit_files: Callable[[int], None]) -> None:
    lake.add([1], 1)
    table, written = lake.open(), lake.write([2])
    limit_files(100)
    try:
        with pytest.raises(LakeNotWritable, match="File too large; nothing was committed") as refused:
            lake.write([2])
        assert "\n" not in str(refused.value)
        with pytest.raises(LakeNotWritable, match="nothing was committed") as refused:
            table.commit(written, Position(2, 1002))
        assert "\n" not in str(refused.value)
        with pytest.raises(LakeNotWritable, match="nothing was committed"):
            lake.open().remember("x")
    finally:
        limit_files(-1)
    assert (lake.ids(), lake.position()) == ([1], 1)
    lake.add([2], 2)
    assert (lake.ids(), lake.position()) == ([1, 2], 2)


FULL_DISK = """
import sys
from pathlib import Path
from tests.spark.test_lake_tables import WrittenLake
from lonnymq.spark.lake.lake_table import LakeNotWritable, Position
lake = WrittenLake(Path(sys.argv[1]) / "lake", sys.argv[2])
lake.add([1], 1)
table, written = lake.open(), lake.write([2])
room = Path(sys.argv[1], "room")
with room.open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)): pass
    except OSError: pass
for call in (lambda: lake.write([2]), lambda: table.commit(written, Position(2, 1002))):
    try:
        call()
    except LakeNotWritable as error:
        print(error.message)
room.unlink()
print(lake.ids(), lake.position())
lake.add([2], 2)
print(lake.ids(), lake.position())
"""


def can_mount() -> bool:
    """Whether this user may make a small disk, as root or in a name space."""
    return subprocess.run(["unshare", "-rm", "true"], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("is_possible", [True] if can_mount() else [])
def test_a_full_disk(tmp_path: Path, table_format: str, is_possible: bool) -> None:
    mount = 'mount -t tmpfs -o size=1m none "$1" && exec "$0" -c "$3" "$1" "$2"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, sys.executable, str(tmp_path), table_format, FULL_DISK],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    refused = f"could not write into {tmp_path}/lake/history: No space left on device; nothing was committed"
    first, second, *rest = done.stdout.splitlines()
    assert first == refused
    assert second.endswith("; nothing was committed")
    assert rest == ["[1] 1", "[1, 2] 2"]


def test_a_folder_that_cannot_be_written(table_format: str) -> None:
    with pytest.raises(LakeNotWritable, match="could not write into /sys/lake"):
        WrittenLake(Path("/sys/lake"), table_format).open()
