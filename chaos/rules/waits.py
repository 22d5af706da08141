"""Every wait ends soon after the fault: invariants 13, 19, 23 and 25."""

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from chaos.case import CREATED, Case, Verdict, verdict
from chaos.evidence import OK, Bools, Floats
from chaos.journal import Record

OPEN = ("open-transactions", "prepared-transactions", "held-snapshot", "publication")
GAP_MS, SHORT_MS = 10_000, 200
DEADLOCK, SPARK = "40P01", "Spark"
# Connections, resources, locks that were not available, operators, the system; and errors without a SQLSTATE.
FAULT_CLASSES = ("08", "53", "55P03", "57", "58", "OperationalError", "ConnectionTimeout", SPARK)


def _undisturbed(case: Case, begin: float, end: float) -> float:
    """How much of this time was without a fault."""
    return _uncovered(case.disturbances(), begin, end)


def _uncovered(spans: Iterable[tuple[float, float]], begin: float, end: float) -> float:
    """How much of this time is in none of the spans, which may overlap."""
    total, reached = 0.0, begin
    for since, until in sorted((max(b, begin), min(e, end)) for b, e in spans if b < end and e > begin):
        total += max(0.0, since - reached)
        reached = max(reached, until)
    return total + max(0.0, end - reached)


def goes_on_after_faults(case: Case) -> Verdict:
    """After each fault, producers create messages, and messages that wait are delivered."""
    calls = case.evidence.calls
    is_ok = calls.outcome == OK
    created = calls.where(is_ok & (calls.kind == 0) & (calls.by_operator == 0))
    delivered = calls.where(is_ok & (calls.kind == 1) & (calls.size > 0))
    waits = _plain_waits(case)
    judged = 0
    slow: list[str] = []
    longest = 0.0
    for fault in case.evidence.faults:
        for what, table in (("created", created), ("delivered", delivered)):
            later = table.end[table.begin >= fault["end"]]
            if fault["fault"] == "calm" or not len(later):
                continue
            begin, end = fault["end"], float(later.min())
            if what == "delivered":
                begin = max(begin, _first_waiting(waits, end))
            waited = _undisturbed(case, begin, end) if begin < end else 0.0
            judged += 1
            longest = max(longest, waited)
            if waited > case.limits.wait_ms:
                slow.append(f"after {fault['fault']} nothing was {what} for {waited / 1000:.1f} s")
    note = f"at most {longest / 1000:.1f} s" if judged else ""
    return verdict("13", "Work goes on soon after each fault", judged, len(slow), iter(slow), note)


def _plain_waits(case: Case) -> tuple[Floats, Floats]:
    """From when and until when the messages of channels without a limit waited."""
    c = case.creates
    plain = np.flatnonzero(
        np.isin(c.channel, case.family("fair", "quiet")) & (c.outcome == OK) & (c.result == CREATED)
    )
    return c.end[plain], case.first_delivery_end[case.index(c.key[plain])]


def _first_waiting(waits: tuple[Floats, Floats], end: float) -> float:
    """Since when one of those that waited at this time did."""
    since, until = waits
    return float(since[until >= end].min(initial=np.inf))


def quiet_tenants_wait_briefly(case: Case) -> Verdict:
    """A message of a tenant that has few, while others have a backlog."""
    c = case.creates
    rows = np.flatnonzero(
        np.isin(c.channel, case.family("quiet")) & (c.outcome == OK) & (c.result == CREATED)
    )
    first = case.first_delivery_end[case.index(c.key[rows])]
    rows, first = rows[np.isfinite(first)], first[np.isfinite(first)]
    waits = np.array(
        [_undisturbed(case, begin, end) for begin, end in zip(c.end[rows], first, strict=True)],
        dtype=np.float64,
    )
    bound = case.limits.wait_ms + 2 * case.world.lease_ms
    slow = np.flatnonzero(waits > bound)
    note = "" if not len(waits) else f"median {np.median(waits):.0f} ms, longest {waits.max() / 1000:.1f} s"
    return verdict(
        "13",
        "A message of a quiet tenant does not wait for the backlogs of others",
        len(rows),
        len(slow),
        (f"message {c.key[rows[i]]} waited {waits[i] / 1000:.1f} s" for i in slow),
        note,
    )


def nothing_is_left(case: Case) -> Verdict:
    stored = list(case.final.stored)
    return verdict(
        "13",
        "In the end every message is served",
        len(case.keys),
        len(stored),
        (f"message {key} is still stored" for key in stored),
    )


def others_go_on(case: Case) -> Verdict:
    """While a transaction is open, prepared or reading, or tables are published, others are served.

    It counts from when a message of a channel without a limit waits.
    """
    waits = _plain_waits(case)
    calls = case.evidence.calls
    ends = np.sort(calls.end[(calls.outcome == OK) & (calls.kind == 1) & (calls.size > 0)])
    judged = 0
    gaps: list[str] = []
    longest = 0.0
    for fault in case.evidence.faults:
        if fault["fault"] not in OPEN:
            continue
        within = ends[(ends > fault["begin"]) & (ends < fault["end"])]
        marks = [fault["begin"], *within, fault["end"]]
        others = [f for f in case.evidence.faults if f["fault"] not in (*OPEN, "calm")]
        gap = max(_unserved(waits, others, a, b) for a, b in pairwise(marks))
        judged += 1
        longest = max(longest, gap)
        if gap > GAP_MS:
            gaps.append(f"{fault['fault']}: nothing was delivered for {gap / 1000:.1f} s")
    note = f"at most {longest / 1000:.1f} s between two deliveries" if judged else ""
    return verdict("23, 25", "No open transaction stops others", judged, len(gaps), iter(gaps), note)


def _unserved(waits: tuple[Floats, Floats], others: list[Record], begin: float, end: float) -> float:
    """For how long of this time a message waited, outside of other faults."""
    if end - begin < SHORT_MS:
        return 0.0
    first = _first_waiting(waits, end)
    spans = ((fault["begin"], fault["end"]) for fault in others)
    return _uncovered(spans, max(begin, first), end) if first < end else 0.0


def copies_are_complete(case: Case) -> Verdict:
    """A dump has what was there, and its restored copy serves exactly that."""
    judged = broken = 0
    examples: list[str] = []
    for fault in case.evidence.of("dump-and-restore"):
        if "stored_keys" not in fault:
            continue
        stored, served = np.sort(fault["stored_keys"]), np.sort(fault["served_keys"])
        judged += len(stored)
        missing, doubled = np.setdiff1d(stored, served), len(served) - len(np.unique(served))
        strange = np.setdiff1d(served, stored)
        lacking = np.setdiff1d(case.keys[_certainly_there(case, *fault["snapshot"])], stored)
        broken += len(missing) + doubled + len(strange) + len(lacking)
        examples += [f"message {key} was in the dump and not served" for key in missing]
        examples += [f"message {key} was served, and not in the dump" for key in strange]
        examples += [f"message {key} was committed before the dump, and is not in it" for key in lacking]
        examples += [f"{doubled} messages were served twice"] if doubled else []
    return verdict("19", "A restored copy serves what the dump has", judged, broken, iter(examples))


def _certainly_there(case: Case, begin: float, end: float) -> Bools:
    c, f = case.creates, case.finishes
    there = np.zeros(len(case.keys), dtype=np.bool_)
    is_created = (c.outcome == OK) & (c.result == CREATED) & (c.end < begin)
    there[case.index(c.key[is_created])] = True
    gone = case.index(case.finished_keys[case.ended_maybe & (f.begin < end)])
    there[gone[gone >= 0]] = False
    return there


def failures_are_explained(case: Case) -> Verdict:
    """Calls fail with errors that say a fault: a lost connection, a shutdown, a timeout, no space."""
    strange = [
        state
        for state, begin, end in case.evidence.errors
        if not state.startswith(FAULT_CLASSES)
        and not (state == DEADLOCK and _overlaps(case, ("reindex", "vacuum-full", "upgrade"), begin, end))
    ]
    return verdict(
        "errors",
        "Calls fail only with errors that a fault explains",
        len(case.evidence.errors),
        len(strange),
        (f"a call failed with SQLSTATE {state}" for state in strange),
    )


def _overlaps(case: Case, names: tuple[str, ...], begin: float, end: float) -> bool:
    return any(f["fault"] in names and f["begin"] < end and begin < f["end"] for f in case.evidence.faults)


RULES = (
    failures_are_explained,
    goes_on_after_faults,
    quiet_tenants_wait_briefly,
    nothing_is_left,
    others_go_on,
    copies_are_complete,
)
