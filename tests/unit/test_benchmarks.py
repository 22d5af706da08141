import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import bench_skew
from benchmarks.bench_worker import Latency
from benchmarks.fairness import ARRIVALS, NOISY_BACKLOG, Fifo, jain, waits
from benchmarks.field import field_scenarios
from benchmarks.field.field_peers import PEERS
from benchmarks.peers.peer import MISSES, PAUSE, Script, commit_mode
from benchmarks.task_queues import TASK_QUEUES
from benchmarks.task_queues.child import Child, ChildFailed
from benchmarks.task_queues.child_command import ChildCommand, Produce, SendAlone, Work, parse_command
from benchmarks.task_queues.task_counter import TaskCounter
from benchmarks.task_queues.worker_group import WorkerGroup
from benchmarks.worker_scenarios import Lone, all_scenarios


def test_jains_index() -> None:
    assert jain([5, 5, 5, 5]) == 1
    assert jain([20, 0, 0, 0]) == 0.25
    assert 0.25 < jain([10, 5, 3, 2]) < 1


def test_without_tenants_the_quiet_wait_for_the_whole_backlog() -> None:
    waited = waits(Fifo())
    assert len(waited) == ARRIVALS
    assert min(waited) > 0.9 * NOISY_BACKLOG


class Fair:
    """Serves the noisy tenant and the quiet ones alternately."""

    def __init__(self) -> None:
        self._quiet: list[str] = []
        self._is_quiets_turn = True

    def put(self, channel: str, count: int = 1) -> None:
        if count == 1:
            self._quiet.append(channel)

    def take(self) -> str:
        self._is_quiets_turn = not self._is_quiets_turn
        return self._quiet.pop(0) if self._is_quiets_turn and self._quiet else "c1"


def test_waits_are_counted_in_messages_served() -> None:
    assert set(waits(Fair())) <= {1, 2}


@pytest.mark.parametrize(
    ("scenario", "policy", "longest", "is_fair"),
    [
        ("one flooder", bench_skew.Fifo, bench_skew.TURNS, False),
        ("one flooder", bench_skew.Caps, bench_skew.WORKERS, False),
        ("one flooder", bench_skew.RoundRobin, 1, True),
        ("heavy and idle", bench_skew.Caps, bench_skew.TURNS, False),
        ("heavy and idle", bench_skew.RoundRobin, 10, True),
        ("spread over many channels", bench_skew.RoundRobin, 400, False),
        ("trickle", bench_skew.RoundRobin, 9, True),
    ],
)
def test_policies_under_skewed_loads(
    scenario: str, policy: Callable[[], bench_skew.Policy], longest: int, is_fair: bool
) -> None:
    (chosen,) = [each for each in bench_skew.all_scenarios() if each.title == scenario]
    outcome = bench_skew.play(chosen, policy())
    assert max(outcome.waits + outcome.unserved) <= longest
    assert (abs(outcome.loud_share - chosen.fair_share) < 0.02) is is_fair


def test_a_script_that_stops_when_the_queue_is_empty() -> None:
    script = Script(
        f"SELECT 1 AS got \\gset\n\\if :got > 0\nSELECT 2;\n\\else\n{PAUSE}\n\\endif\n"
    ).until_empty()
    assert dict(script.variables) == {"misses": "0"}
    assert f"\\if :misses >= {MISSES}\nSELECT 1 / 0;\n\\endif\n{PAUSE}" in script.text
    assert "SELECT 2;\n\\set misses 0\n\\else" in script.text


@pytest.mark.parametrize(("commit", "setting"), [("durable", "on"), ("async", "off")])
def test_how_a_dequeue_commits(commit: str, setting: str) -> None:
    assert f"'{setting}', TRUE" in commit_mode(commit)  # type: ignore[arg-type]


def test_a_counter_of_two_processes(tmp_path: Path) -> None:
    watching = TaskCounter.make(tmp_path / "counter", 2)
    before = time.monotonic()
    workers = [TaskCounter(tmp_path / "counter", slot) for slot in (0, 1)]
    for number in range(5):
        workers[number % 2].add(number)
    assert watching.count() == 5
    assert watching.has_each_once(5)
    assert before <= watching.last_at() <= time.monotonic()


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 1, 2, 2]])
def test_a_counter_that_lacks_a_task_or_has_one_twice(tmp_path: Path, numbers: list[int]) -> None:
    counter = TaskCounter.make(tmp_path / "counter", 1)
    for number in numbers:
        counter.add(number)
    assert not counter.has_each_once(3)


@pytest.mark.parametrize(
    "command",
    [
        Work("pgqueuer", "postgresql://", "sync", "single", Path("counter"), 1),
        Produce("procrastinate", "postgresql://", 50, 10, 2),
        SendAlone("lonnymq", "postgresql://", 20, Path("counter")),
    ],
)
def test_commands_are_sent_as_one_line(command: ChildCommand) -> None:
    assert command.line().endswith("\n")
    assert parse_command(command.line()) == command


def test_a_child_that_cannot_start_reports_why() -> None:
    command = Produce("no such queue", "postgresql://", 1, 1, 1)
    with (
        pytest.raises(ChildFailed, match=r"(?s)Produce of no such queue exited with 1.*KeyError"),
        Child(command) as child,
    ):
        child.wait_until_ready()


def test_waiting_for_workers_that_exited_fails(tmp_path: Path) -> None:
    path = tmp_path / "counter"
    counter = TaskCounter.make(path, 1)
    with pytest.raises(ChildFailed, match="exited with 1"), Child(Produce("nobody", "", 1, 1, 1)) as worker:
        WorkerGroup([worker], counter, path).wait_until_run(1)


def test_every_task_queue_of_a_scenario_exists() -> None:
    of_workers = {queue for scenario in all_scenarios() for queue in scenario.queues}
    variants = {name for scenario in field_scenarios.all_scenarios() for name in scenario.variant.values()}
    assert of_workers | variants | {peer.name for peer in PEERS} == set(TASK_QUEUES)


def test_times_of_all_rounds_are_merged() -> None:
    latency = Latency(Lone(1))
    latency.add("lonnymq", {"since_called": [float(n) for n in range(1, 51)]})
    latency.add("lonnymq", {"since_called": [float(n) for n in range(51, 100)]})
    assert latency.percentile("lonnymq", "since_called", 50) == statistics.median(range(1, 100))
    assert latency.percentile("lonnymq", "since_called", 99) == pytest.approx(98.02)
