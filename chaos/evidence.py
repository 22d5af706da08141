"""The journals of all processes as tables: one row per message created, delivered or finished.

Times are milliseconds of the machine's monotonic clock, which all processes share. A call took effect between
its `begin` and its `end`, which is infinite if there was no answer.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaos.journal import Record, read
from chaos.world import OPERATOR_KEYS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

FAILED, OK, UNKNOWN, ROLLED_BACK = range(4)
OUTCOMES = {"failed": FAILED, "ok": OK, "unknown": UNKNOWN, "rolled back": ROLLED_BACK}
RESULTS = (
    "", "created", "duplicate", "full", "completed", "retried", "dead", "extended", "lost", "not_found",
    "cancelled",
)  # fmt: skip
KINDS = ("complete", "retry", "extend")
TIMES = ("begin", "end")
NO_TIME = -1
NO_LSN = np.iinfo(np.int64).max


@dataclass
class Table:
    """Columns of equal length."""

    columns: dict[str, NDArray[Any]]

    def __getattr__(self, name: str) -> NDArray[Any]:
        try:
            return self.__dict__["columns"][name]  # type: ignore[no-any-return]
        except KeyError:
            raise AttributeError(name) from None

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def where(self, wanted: Bools | Ints) -> "Table":
        return Table({name: column[wanted] for name, column in self.columns.items()})


@dataclass
class Evidence:
    """`creates` has a row per message and call; `keys` of messages say which is meant in all tables.

    `creates`: key, channel, at, priority, outcome, result, begin, end, lsn, keyed, source
    `deliveries`: key, id, channel, attempts, call, place, outcome, begin, end, released_at, lease_ms,
    is_async, lsn, source, task; a call has one number in all journals
    `finishes`: delivery (a row of `deliveries`), kind, result, outcome, begin, end, lease_ms, retry_at, lsn
    `policies`: what operators set; `faults`: what went wrong, and calm times
    `errors`: SQLSTATE, begin and end of the calls that failed
    """

    creates: Table
    deliveries: Table
    finishes: Table
    policies: list[Record]
    faults: list[Record]
    calls: Table
    errors: list[tuple[str, float, float]] = field(default_factory=list)
    records: int = 0

    def of(self, fault: str) -> list[Record]:
        return [record for record in self.faults if record["fault"] == fault]


@dataclass(frozen=True)
class FinalState:
    """What the database has at the end. `dead` has (key, attempts) of the dead letters."""

    stored: Sequence[int] = ()
    dead: Sequence[tuple[int, int]] = ()
    effects: Sequence[int] = ()


class Columns:
    """Collects rows, column by column."""

    def __init__(self, *names: str) -> None:
        self.arrays: dict[str, array[Any]] = {name: array("d" if name in TIMES else "q") for name in names}

    def add(self, count: int, **values: Any) -> None:
        """Add rows; a value that is not a list applies to all of them."""
        for name, column in self.arrays.items():
            value = values[name]
            if isinstance(value, list):
                column.extend(value)
            else:
                column.extend([value] * count)

    def table(self) -> Table:
        return Table({name: np.array(values) for name, values in self.arrays.items()})


class Reader:
    """Reads journals one after the other."""

    def __init__(self) -> None:
        self.creates = Columns(
            "key",
            "channel",
            "at",
            "priority",
            "outcome",
            "result",
            "begin",
            "end",
            "lsn",
            "keyed",
            "source",
            "call",
        )
        self.deliveries = Columns(
            "key", "id", "channel", "attempts", "call", "place", "outcome", "begin", "end", "released_at",
            "lease_ms", "is_async", "lsn", "source", "task",
        )  # fmt: skip
        self.finishes = Columns(
            "delivery", "kind", "result", "outcome", "begin", "end", "lease_ms", "retry_at", "lsn"
        )
        self.calls = Columns("kind", "begin", "end", "size", "outcome", "by_operator")
        self.policies: list[Record] = []
        self.errors: list[tuple[str, float, float]] = []
        self.records = 0
        self._calls = 0
        self._sources = 0
        self._delivered = 0

    def read(self, records: Iterable[Record]) -> None:
        source = self._sources
        self._sources += 1
        open_calls: dict[int, Record] = {}
        rows: dict[int, int] = {}  # where the deliveries of a call begin
        for record in records:
            self.records += 1
            if "kind" in record and "call" in record:
                open_calls[record["call"]] = record
            elif "call" in record:
                self._add(open_calls.pop(record["call"]), record, source, rows)
        for before in open_calls.values():
            self._add(before, {"outcome": "unknown", "at": np.inf}, source, rows)

    def _add(self, before: Record, after: Record, source: int, rows: dict[int, int]) -> None:
        self._calls += 1
        if "error" in after:
            self.errors.append((after["error"], before["at"], after["at"]))
        outcome = OUTCOMES[after["outcome"]]
        common = {
            "outcome": outcome,
            "begin": before["at"],
            "end": after["at"],
            "lsn": after.get("lsn") or NO_LSN,
        }
        kind = before["kind"]
        count = 0
        if kind == "create":
            count = self._add_create(before, after, common, source)
        elif kind in {"dequeue", "work"}:
            count = self._add_deliveries(before, after, common, source, rows)
        elif kind in KINDS:
            count = self._add_finish(before, after, common, rows)
        elif kind == "policy":
            self.policies.append(
                before | {"begin": before["at"], "end": after["at"], "outcome": after["outcome"]}
            )
        names = ("create", "dequeue", "complete")
        if kind in names:
            self.calls.add(
                1,
                kind=names.index(kind),
                begin=before["at"],
                end=after["at"],
                size=count,
                outcome=outcome,
                by_operator=int(before.get("first", 0) >= OPERATOR_KEYS),
            )

    def _add_create(self, before: Record, after: Record, common: Mapping[str, Any], source: int) -> int:
        count = len(before["channels"])
        results = after.get("results", "")
        self.creates.add(
            count,
            key=list(range(before["first"], before["first"] + count)),
            channel=before["channels"],
            at=[NO_TIME if at is None else at for at in before["ats"]],
            priority=before["priorities"],
            result=_codes(results),
            keyed=int(before["keyed"]),
            source=source,
            call=self._calls,
            **common,
        )
        return count

    def _add_deliveries(
        self, before: Record, after: Record, common: Mapping[str, Any], source: int, rows: dict[int, int]
    ) -> int:
        is_task = before["kind"] == "work"
        seen = before if is_task else after
        keys = seen.get("keys", [])
        rows[before["call"]] = self._delivered
        if is_task:  # the worker leased it some time before; that it runs does not depend on the outcome
            common = dict(common) | {"outcome": OK, "end": before["at"]}
        lease_ms = before.get("lease_ms", 0)
        self.deliveries.add(
            len(keys),
            key=[-1 if key is None else key for key in keys],
            id=seen.get("ids", []),
            channel=seen.get("channels", []),
            attempts=seen.get("attempts", 0),
            call=self._calls,
            place=list(range(len(keys))),
            released_at=seen.get("lease_end", 0) - lease_ms,
            lease_ms=lease_ms,
            is_async=int(before.get("async", False)),
            source=source,
            task=int(is_task),
            **common,
        )
        if is_task:
            done = {"outcome": OUTCOMES[after["outcome"]], "begin": before["at"], "end": after["at"]}
            self.finishes.add(
                len(keys),
                delivery=list(range(self._delivered, self._delivered + len(keys))),
                kind=0,
                result=_codes("completed"),
                lease_ms=0,
                retry_at=NO_TIME,
                lsn=NO_LSN,
                **done,
            )
        self._delivered += len(keys)
        return len(keys)

    def _add_finish(
        self, before: Record, after: Record, common: Mapping[str, Any], rows: Mapping[int, int]
    ) -> int:
        count = len(before["places"])
        first = rows[before["of"]]
        self.finishes.add(
            count,
            delivery=[first + place for place in before["places"]],
            kind=KINDS.index(before["kind"]),
            result=_codes(after.get("results", "")),
            lease_ms=before.get("lease_ms", 0),
            retry_at=before.get("retry_at", NO_TIME),
            **common,
        )
        return count

    def evidence(self, faults: Iterable[Record]) -> Evidence:
        return Evidence(
            self.creates.table(),
            self.deliveries.table(),
            self.finishes.table(),
            self.policies,
            list(faults),
            self.calls.table(),
            self.errors,
            self.records,
        )


def _codes(results: str | list[str]) -> int | list[int]:
    if isinstance(results, str):
        return RESULTS.index(results)
    return [RESULTS.index(result) for result in results]


def from_records(journals: Iterable[Iterable[Record]]) -> Evidence:
    """The journal of the operator has the faults, too."""
    reader = Reader()
    faults: list[Record] = []
    for journal in journals:
        reader.read(_without_faults(journal, faults))
    return reader.evidence(faults)


def _without_faults(records: Iterable[Record], faults: list[Record]) -> Iterable[Record]:
    for record in records:
        if "fault" in record:
            faults.append(record)
        else:
            yield record


def from_folder(folder: Path) -> Evidence:
    return from_records(read(path) for path in sorted(folder.glob("*.jsonl")))
