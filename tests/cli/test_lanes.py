"""lonnymq lanes."""

from lonnymq import Queue
from tests.cli.conftest import Run


def test_lanes(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(3))
    queue.enqueue(1, lane="slow")
    queue.enqueue(2, lane="slow", delay=600)
    done = lonnymq("lanes")
    assert (done.code, done.stderr) == (0, "")
    titles, *rows = [line.split() for line in done.stdout.splitlines()]
    assert titles == ["lane", "waiting", "ready"]
    assert sorted(rows) == [["default", "3", "3"], ["slow", "1", "1"]]
    counts = {lane["lane"]: (lane["waiting"], lane["ready"]) for lane in lonnymq("lanes", "--json").records}
    assert counts == {"default": (3, 3), "slow": (1, 1)}
