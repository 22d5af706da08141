"""The benchmark of the field: what it computes from the log of tasks, its file of results, and its page."""

import os
import random
import subprocess
import sys
from dataclasses import asdict
from math import inf
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.bench_field import main, measure, runs
from benchmarks.field.environments import REQUIREMENTS
from benchmarks.field.field_page import write
from benchmarks.field.field_peers import PEERS
from benchmarks.field.field_results import FieldResults, FieldRun, ResultsDiffer
from benchmarks.field.field_scenarios import (
    Scenario,
    Sizes,
    all_scenarios,
    ended,
    most_at_once,
    open_tasks,
    quantile,
    rate,
    restarts,
    served,
    waits_of,
    workers_of,
)
from benchmarks.field.stage import Stage
from benchmarks.task_queues import TASK_QUEUES, load_task_queue
from benchmarks.task_queues.child_command import Install, Send, SendPaced, WorkWithLog, parse_command
from benchmarks.task_queues.pgmq import in_order
from benchmarks.task_queues.task_log import TaskEvent, TaskLog, TaskLogReader
from benchmarks.task_queues.task_queue import TENANT
from dev.environment import CHECKOUT


def events(*rows: tuple[int, float, bool]) -> list[TaskEvent]:
    return [TaskEvent(*row) for row in rows]


def test_the_log_has_what_forked_processes_and_threads_append(tmp_path: Path) -> None:
    reader = TaskLogReader(tmp_path / "log")
    log = TaskLog(tmp_path / "log", seconds=0.001)
    children = []
    for number in (1, 2, 3):
        if (child := os.fork()) == 0:
            log.add(number)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    log.add(4)
    assert reader.count() == 8
    read = reader.events()
    assert {event.number for event in read if not event.is_end} == {1, 2, 3, 4}
    assert ended(read) == {1: 1, 2: 1, 3: 1, 4: 1}
    assert read[-1].at > read[-2].at
    reader.close()


def test_half_a_record_is_not_read(tmp_path: Path) -> None:
    reader = TaskLogReader(tmp_path / "log")
    TaskLog(tmp_path / "log").add(7)
    with (tmp_path / "log").open("ab") as file:
        file.write(b"half")
    assert reader.count() == 1
    assert [event.number for event in reader.events()] == [7]
    reader.close()


def test_the_rate_is_counted_from_the_first_to_the_last_start() -> None:
    assert rate(events((1, 10.0, False), (2, 10.5, False), (3, 11.0, False))) == 2
    assert rate(events((1, 10.0, False))) == 0


def test_a_limit_that_is_broken_is_seen() -> None:
    one, other = TENANT, 2 * TENANT
    kept = events(
        (one, 1, False), (other, 1.5, False), (one, 2, True), (one + 1, 2, False), (one + 1, 3, True)
    )
    assert most_at_once(kept) == 1
    assert most_at_once(kept + events((other + 1, 1.6, False))) == 2


def test_what_a_killed_worker_ran_is_followed() -> None:
    log = [
        TaskEvent(1, 1.0, is_end=False, worker=7),
        TaskEvent(2, 1.1, is_end=False, worker=7),
        TaskEvent(1, 1.2, is_end=True, worker=7),
        TaskEvent(3, 1.3, is_end=False, worker=8),
        TaskEvent(2, 9.0, is_end=False, worker=8),
        TaskEvent(2, 9.5, is_end=False, worker=8),
    ]
    assert workers_of(log) == {7, 8}
    assert open_tasks(log, 7) == {2}
    assert restarts(log, {2, 4}, 7) == {2: 9.0}


def test_waits_of_tasks_that_never_started_are_infinite() -> None:
    log = events((1, 5.0, False), (1, 9.0, False), (2, 3.0, False))
    assert waits_of(log, {1: 4.0, 2: 4.0, 3: 4.0}) == [1.0, 0.0, inf]
    assert not served(log, {1: 4.0, 3: 4.0})
    assert served(log, {1: 4.0, 2: 4.0})


def test_quantiles_include_the_infinite() -> None:
    assert quantile([1, 2, 3, inf], 50) == 3
    assert quantile([3, 1, 2, inf], 99) == inf


def test_groups_of_pgmq_run_one_after_the_other() -> None:
    class Handler:
        def __init__(self) -> None:
            self.added: list[int] = []

        def add(self, number: int) -> None:
            self.added.append(number)

        async def add_async(self, number: int) -> None:
            self.add(number)

    handler = Handler()
    first, second = in_order([TENANT, 2 * TENANT, TENANT + 1], handler)
    for run in (second, first):
        with pytest.raises(StopIteration):
            run.send(None)
    assert handler.added == [2 * TENANT, TENANT, TENANT + 1]


@pytest.mark.parametrize(
    "command",
    [
        Install("oban", "dsn"),
        WorkWithLog("oban", "dsn", "async", "batches", Path("log"), 0.5),
        Send("oban", "dsn", [1, 2], 10, 1.5, 5, 2),
        Send("oban", "dsn", [1, 2], 10, 1.5, 5, 2, Path("log"), 100),
        SendPaced("oban", "dsn", [1], 10, 2.5),
    ],
)
def test_commands_survive_the_line(command: Install | WorkWithLog | Send | SendPaced) -> None:
    assert parse_command(command.line()) == command


def test_each_library_has_an_environment_and_says_what_it_cannot_do() -> None:
    names = {scenario.name for scenario in all_scenarios()}
    for peer in PEERS:
        assert (REQUIREMENTS / f"field-{peer.name}.txt").exists()
        assert set(peer.cannot) <= names
        assert set(load_task_queue(peer.name).settings) == {"batches", "single", "default", "recovering"}
    variants = {name for scenario in all_scenarios() for name in scenario.variant.values()}
    assert variants <= set(TASK_QUEUES)
    limited = {peer.name for peer in PEERS if "limit" not in peer.cannot}
    [limit] = [scenario for scenario in all_scenarios() if scenario.name == "limit"]
    assert set(limit.variant) == limited


def test_libraries_that_the_checkout_lacks_are_not_imported() -> None:
    """The process that starts the others has none of them."""
    names = [peer.name for peer in PEERS]
    script = f"""
import sys
from benchmarks.task_queues import load_task_queue
for name in {names}: load_task_queue(name)
print(sorted(set(sys.modules) & {{'awa', 'oban', 'absurd_sdk', 'chancy', 'celery', 'rq', 'redis'}}))"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_first_round_has_everything_and_later_ones_what_is_repeated() -> None:
    planned = list(runs(all_scenarios(), PEERS, 2))
    first = [(scenario.name, peer.name) for turn, scenario, peer in planned if turn == 0]
    assert len(first) == len(PEERS) * len(all_scenarios()) - sum(len(peer.cannot) for peer in PEERS)
    assert {scenario.name for turn, scenario, _ in planned if turn == 1} == {
        scenario.name for scenario in all_scenarios() if scenario.is_repeated
    }
    second = [peer.name for turn, scenario, peer in planned if turn == 1 and scenario.name == "lone"]
    assert second == [peer.name for peer in reversed(PEERS)]


def test_results_are_continued_and_failures_repeated(tmp_path: Path) -> None:
    path, sizes = tmp_path / "field.json", asdict(Sizes())
    results = FieldResults.load(path, sizes)
    results.set_missing("awa", "no such Python")
    results.add(FieldRun("oban", "lone", 0, {"p50_ms": inf}, None))
    results.add(FieldRun("rq", "lone", 0, {}, "it broke"))
    again = FieldResults.load(path, sizes)
    assert again.has("oban", "lone", 0)
    assert again.median("oban", "lone", "p50_ms") == inf
    assert "Infinity" not in path.read_text(encoding="utf-8"), "it is not JSON"
    assert again.missing == {"awa": "no such Python"}
    assert not again.has("rq", "lone", 0)
    again.add(FieldRun("rq", "lone", 0, {"p50_ms": 2.0}, None))
    assert again.median("rq", "lone", "p50_ms") == 2
    assert again.error("rq", "lone") is None
    with pytest.raises(ResultsDiffer, match="name another file"):
        FieldResults.load(path, asdict(Sizes(seconds=1)))


def test_the_page_has_a_cell_for_everything(tmp_path: Path) -> None:
    chance = random.Random(7)
    results = FieldResults(
        None, asdict(Sizes()), {peer.name: "1.0" for peer in PEERS} | {"postgresql": "PostgreSQL 18"}
    )
    names = "rate worker_us server_us memory_mb p50_ms p99_ms wait_s worst_s at_once ratio lost doubled"
    for turn, scenario, peer in runs(all_scenarios(), PEERS, 2):
        values = {name: chance.uniform(1, 100) for name in [*names.split(), "rate_before", "rate_held"]}
        values["recovery_s"] = 10.5
        values["at_once"] = 1 if peer.name != "pgqueuer" else 3
        values["wait_s"] = inf if peer.name == "celery" else 0.25
        failed = (scenario.name, peer.name) == ("lone", "chancy")
        results.add(
            FieldRun(
                peer.name,
                scenario.name,
                turn,
                {} if failed else values,
                "line 1\nit broke" if failed else None,
            )
        )
    results.set_missing("oban", "ERROR: no such Python")
    write(tmp_path, results, Sizes())
    page = (tmp_path / "benchmarks-field.md").read_text()
    for part in (
        "| | LonnyMQ | pgmq | PgQueuer |",
        "broken: 3 at once",
        "| > 20, ",
        "Chancy failed: `it broke`",
        "absurd: Its SDK spawns one task per call.",
        "oban is left out: ERROR: no such Python",
        "`pgqueuer, limited`: An entrypoint for each tenant",
    ):
        assert part in page, part
    assert "not measured" not in page
    assert [path.name for path in (tmp_path / "images").iterdir()] == ["field.svg"]


def test_a_library_that_fails_in_one_run_only(tmp_path: Path) -> None:
    results = FieldResults(None, asdict(Sizes()))
    for turn, error in enumerate((None, "line 1\nit broke")):
        results.add(FieldRun("awa", "consume-many", turn, {} if error else {"rate": 100.0}, error))
    write(tmp_path, results, Sizes())
    page = (tmp_path / "benchmarks-field.md").read_text()
    assert "| 100 [" in page
    assert "awa failed in one of the runs: `it broke`" in page


def test_what_a_library_raises_does_not_end_the_others() -> None:
    def run(_stage: Stage, name: str, _sizes: Sizes) -> dict[str, float]:
        return {"rate": 1 / (name != "awa")}

    [awa, rq] = [peer for peer in PEERS if peer.name in {"awa", "rq"}]
    results = FieldResults(None, asdict(Sizes()))
    stage = Stage({}, {"awa": Path(), "rq": Path()})
    scenario = Scenario("lone", run, {}, is_repeated=False)
    measure(stage, [(0, scenario, awa), (0, scenario, rq)], results, Sizes(), None, Console(quiet=True))
    assert results.error("awa", "lone") == "ZeroDivisionError: division by zero"
    assert results.median("rq", "lone", "rate") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "kafka"], "no 'kafka'; choose from lonnymq, pgmq"),
        (["--scenario", "nothing"], "no 'nothing'; choose from enqueue-1"),
        (["--seconds", "0"], "'0' is not a number above 0"),
        (["--seconds", "nan"], "'nan' is not a number above 0"),
        (["--minutes", "-1"], "'-1' is not a number above 0"),
        (["--rounds", "0"], "'0' is not a whole number from 1 to 100"),
        (["--only", ","], "--only names nothing; choose from lonnymq"),
        (["--json", "/proc/nobody/x.json"], "cannot write '/proc/nobody/x.json'"),
    ],
)
def test_invalid_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["root:x:0", "[]", "{}", "3"])
def test_a_file_without_results(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    assert main(["--json", str(path)]) == 2
    assert f"{path} is not a file of results; name another file" in capsys.readouterr().err
    assert path.read_text() == text
