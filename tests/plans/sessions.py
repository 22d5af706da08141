"""Compares the costs of calls before and after something happened, for two kinds of sessions.

The veteran planned every statement while the tables were empty or small, and keeps these plans as long
as the tables are not analysed, like a consumer of an empty queue when many messages come in at once. The
newcomer is a new session each time.
"""

from collections.abc import Callable
from enum import Enum

from tests.conftest import SCHEMA
from tests.database import Connect
from tests.invariants import drain
from tests.plans.buffers import Costs, Meter
from tests.plans.rounds import DESCENTS, WARM_UP_ROUNDS, Workload, measure, run_round
from tests.plans.states import create, dispatch_in_bulk

# "No growth" allows only this: a larger table may have a higher B-tree, which is one page more for each
# descent;
LEVELS = 1
# and a page may just have been split, a table may need a new page, or a search for expired leases may be
# due, which takes ten descents by itself.
SLACK = 20

# A call that is counted once may find an index with a new root: the session then plans again.
REPLANNED = 200

Bound = Callable[[str, int], int]


def twice(call: str, before: int) -> int:
    return 2 * before


def about_twice(call: str, before: int) -> int:
    """For calls that are counted only once, and so may include anything that happens now and then."""
    return 2 * no_growth(call, before) + REPLANNED


def no_growth(call: str, before: int) -> int:
    return before + LEVELS * DESCENTS[call] + SLACK


class Statistics(Enum):
    """What the planner knows. If it knew nothing, a test ends with another comparison under fresh
    statistics.
    """

    EMPTY = "never analysed, then fresh"
    STALE = "analysed when small"


class Comparison:
    def __init__(self, connect: Connect, statistics: Statistics) -> None:
        self._connect = connect
        self._statistics = statistics
        self._grown: list[str] = []
        self.loader = connect()
        rows = self.loader.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::REGNAMESPACE AND relkind = 'r'", (SCHEMA,)
        )
        tables = [str(name) for (name,) in rows]
        for table in tables:
            self.loader.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if statistics is Statistics.STALE:
            create(self.loader, 10, 10, "c")  # one page per table, so that a sequential scan looks cheap
            dispatch_in_bulk(self.loader)
            for table in tables:
                self.loader.execute(f"VACUUM ANALYZE {table}")
            drain(self.loader)
        generic = f"-c search_path={SCHEMA} -c plan_cache_mode=force_generic_plan"
        self.veteran = Meter(connect(options=generic))
        for _ in range(WARM_UP_ROUNDS):
            run_round(self.veteran, Workload.NARROW | Workload.WIDE)

    def newcomer(self) -> Meter:
        return Meter(self._connect())

    def costs(self, workload: Workload) -> dict[str, Costs]:
        newcomer = self.newcomer()
        costs = {"veteran": measure(self.veteran, workload), "newcomer": measure(newcomer, workload)}
        newcomer.conn.close()
        return costs

    def compare_first_round(self, before: dict[str, Costs], workload: Workload) -> None:
        """The very first calls after something happened."""
        self.veteran.forget()
        run_round(self.veteran, workload)
        self._note(before["veteran"], self.veteran.costs(), about_twice, "the first calls, veteran")

    def compare(self, before: dict[str, Costs], workload: Workload, bound: Bound, when: str) -> None:
        for session, after in self.costs(workload).items():
            self._note(before[session], after, bound, f"{when}, {session}")

    def _note(self, before: Costs, after: Costs, bound: Bound, when: str) -> None:
        self._grown += [
            f"{call}: {before[call]} buffers before, {after[call]} after ({when})"
            for call in before
            if after[call] > bound(call, before[call])
        ]

    def check_no_growth(self, before: dict[str, Costs], workload: Workload, bound: Bound) -> None:
        """Compare under the current statistics, then under fresh ones, and report all growth."""
        self.compare(before, workload, bound, self._statistics.name.lower() + " statistics")
        if self._statistics is Statistics.EMPTY:
            self.loader.execute("ANALYZE")
            self.compare(before, workload, bound, "fresh statistics")
        assert not self._grown, "\n".join(["these calls touch more than they should:", *self._grown])
