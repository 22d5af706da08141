"""A queue as sessions of two kinds meet it, and what the planner knows of it.

One session planned every statement while the tables were empty, or small, and keeps these plans as long as
nobody analyses the tables: so a consumer of a drained queue finds itself when a flood comes in. Another one
is new each time.
"""

from collections.abc import Callable
from enum import Enum

from tests.conftest import SCHEMA
from tests.database import Connect
from tests.invariants import drain
from tests.plans.buffers import Costs, Meter
from tests.plans.rounds import BEFOREHAND, DESCENTS, Scene, measure, play
from tests.plans.states import create, dispatch_in_bulk

# "No growth" means none but this: a larger table may have a higher B-tree, one page more each time that
# a call goes down it;
LEVELS = 1
# and a page may have been split a moment ago, a table may need a new one, or a look at the leases fall due,
# which alone goes down ten times.
BY_CHANCE = 20

# What is counted once may meet an index that has just got a new root: a session then plans anew.
ANEW = 200

Bound = Callable[[str, int], int]


def twice(call: str, before: int) -> int:
    return 2 * before


def hardly_more(call: str, before: int) -> int:
    """For what is counted once, and may meet with all that happens now and then."""
    return 2 * no_more(call, before) + ANEW


def no_more(call: str, before: int) -> int:
    return before + LEVELS * DESCENTS[call] + BY_CHANCE


class Statistics(Enum):
    """What the planner knows. Where it knew nothing, a test goes on with fresh ones in the end."""

    EMPTY = "never analysed, then fresh"
    STALE = "analysed when small"


class Watch:
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
            create(self.loader, 10, 10, "c")  # a page a table: to read all of it looks cheap
            dispatch_in_bulk(self.loader)
            for table in tables:
                self.loader.execute(f"VACUUM ANALYZE {table}")
            drain(self.loader)
        generic = f"-c search_path={SCHEMA} -c plan_cache_mode=force_generic_plan"
        self.veteran = Meter(connect(options=generic))
        for _ in range(BEFOREHAND):
            play(self.veteran, Scene.NARROW | Scene.WIDE)

    def newcomer(self) -> Meter:
        return Meter(self._connect())

    def costs(self, scene: Scene) -> dict[str, Costs]:
        newcomer = self.newcomer()
        costs = {"veteran": measure(self.veteran, scene), "newcomer": measure(newcomer, scene)}
        newcomer.conn.close()
        return costs

    def compare_first_round(self, before: dict[str, Costs], scene: Scene) -> None:
        """The very first calls after something has happened."""
        self.veteran.forget()
        play(self.veteran, scene)
        self._note(before["veteran"], self.veteran.costs(), hardly_more, "the first calls, veteran")

    def compare(self, before: dict[str, Costs], scene: Scene, bound: Bound, when: str) -> None:
        for session, after in self.costs(scene).items():
            self._note(before[session], after, bound, f"{when}, {session}")

    def _note(self, before: Costs, after: Costs, bound: Bound, when: str) -> None:
        self._grown += [
            f"{call}: {before[call]} buffers before, {after[call]} after ({when})"
            for call in before
            if after[call] > bound(call, before[call])
        ]

    def conclude(self, before: dict[str, Costs], scene: Scene, bound: Bound) -> None:
        """Compare under the statistics at hand, then under fresh ones; and say all that grew."""
        self.compare(before, scene, bound, self._statistics.name.lower() + " statistics")
        if self._statistics is Statistics.EMPTY:
            self.loader.execute("ANALYZE")
            self.compare(before, scene, bound, "fresh statistics")
        assert not self._grown, "\n".join(["these calls touch more than they should:", *self._grown])
