import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import skew
from benchmarks.fairness import ARRIVALS, NOISY_BACKLOG, Fifo, jain, waits
from benchmarks.peers.peer import MISSES, PAUSE, Script, commit_mode
from benchmarks.task_queues import HOMES
from benchmarks.task_queues.child import Child, ChildFailed
from benchmarks.task_queues.crew import Crew
from benchmarks.task_queues.order import Order, Produce, SendAlone, Work, parsed
from benchmarks.task_queues.tally import Tally
from benchmarks.worker import Latency
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
    """Serves the noisy tenant and the quiet ones by turns."""

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
        ("one flooder", skew.Fifo, skew.TURNS, False),
        ("one flooder", skew.Caps, skew.WORKERS, False),
        ("one flooder", skew.RoundRobin, 1, True),
        ("heavy and idle", skew.Caps, skew.TURNS, False),
        ("heavy and idle", skew.RoundRobin, 10, True),
        ("spread over many channels", skew.RoundRobin, 400, False),
        ("trickle", skew.RoundRobin, 9, True),
    ],
)
def test_policies_under_skewed_loads(
    scenario: str, policy: Callable[[], skew.Policy], longest: int, is_fair: bool
) -> None:
    (chosen,) = [each for each in skew.all_scenarios() if each.title == scenario]
    outcome = skew.play(chosen, policy())
    assert max(outcome.waits + outcome.unserved) <= longest
    assert (abs(outcome.loud_share - chosen.fair_share) < 0.02) is is_fair


def test_a_script_that_stops_when_there_is_no_more() -> None:
    script = Script(
        f"SELECT 1 AS got \\gset\n\\if :got > 0\nSELECT 2;\n\\else\n{PAUSE}\n\\endif\n"
    ).until_empty()
    assert dict(script.variables) == {"misses": "0"}
    assert f"\\if :misses >= {MISSES}\nSELECT 1 / 0;\n\\endif\n{PAUSE}" in script.text
    assert "SELECT 2;\n\\set misses 0\n\\else" in script.text


@pytest.mark.parametrize(("commit", "setting"), [("durable", "on"), ("async", "off")])
def test_how_a_dequeue_commits(commit: str, setting: str) -> None:
    assert f"'{setting}', TRUE" in commit_mode(commit)  # type: ignore[arg-type]


def test_a_tally_of_two_processes(tmp_path: Path) -> None:
    watching = Tally.make(tmp_path / "tally", 2)
    before = time.monotonic()
    workers = [Tally(tmp_path / "tally", slot) for slot in (0, 1)]
    for number in range(5):
        workers[number % 2].add(number)
    assert watching.count() == 5
    assert watching.has_each_once(5)
    assert before <= watching.last_at() <= time.monotonic()


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 1, 2, 2]])
def test_a_tally_that_lacks_a_task_or_has_one_twice(tmp_path: Path, numbers: list[int]) -> None:
    tally = Tally.make(tmp_path / "tally", 1)
    for number in numbers:
        tally.add(number)
    assert not tally.has_each_once(3)


@pytest.mark.parametrize(
    "order",
    [
        Work("pgqueuer", "postgresql://", "sync", "single", Path("tally"), 1),
        Produce("procrastinate", "postgresql://", 50, 10, 2),
        SendAlone("lonnymq", "postgresql://", 20, Path("tally")),
    ],
)
def test_orders_go_over_a_pipe(order: Order) -> None:
    assert order.line().endswith("\n")
    assert parsed(order.line()) == order


def test_a_child_that_cannot_begin_says_why() -> None:
    order = Produce("no such queue", "postgresql://", 1, 1, 1)
    with (
        pytest.raises(ChildFailed, match=r"(?s)Produce of no such queue ended with 1.*KeyError"),
        Child(order) as child,
    ):
        child.wait_until_ready()


def test_workers_that_end_are_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tally"
    tally = Tally.make(path, 1)
    with pytest.raises(ChildFailed, match="ended with 1"), Child(Produce("nobody", "", 1, 1, 1)) as worker:
        Crew([worker], tally, path).wait_until_run(1)


def test_every_task_queue_that_a_scenario_names_is_there() -> None:
    assert {queue for scenario in all_scenarios() for queue in scenario.queues} == set(HOMES)


def test_times_of_all_rounds_count_alike() -> None:
    latency = Latency(Lone(1))
    latency.add("lonnymq", {"since_called": [float(n) for n in range(1, 51)]})
    latency.add("lonnymq", {"since_called": [float(n) for n in range(51, 100)]})
    assert latency.percentile("lonnymq", "since_called", 50) == statistics.median(range(1, 100))
    assert latency.percentile("lonnymq", "since_called", 99) == pytest.approx(98.02)
