"""When and in which order messages are delivered: invariants 9, 11, 12 and 21."""

from itertools import combinations

import numpy as np

from chaos.case import Case, Verdict, verdict
from chaos.evidence import NO_TIME, OK, ROLLED_BACK, UNKNOWN, Bools, Ints
from chaos.journal import Record
from chaos.world import KEYS_PER_PRODUCER

CLOCK_MS = 5000  # how long a step of the clock may still show in times, besides its size


def _moved(case: Case) -> Ints:
    """Messages that were perhaps given back for another time."""
    f = case.finishes
    return np.unique(case.finished_keys[f.moved == 1])


def _slack(case: Case) -> Ints:
    """By how many ms the server's clock may have gone back before each delivery."""
    d = case.deliveries
    slack = np.zeros(len(d), dtype=np.int64)
    for fault in case.evidence.of("clock-step"):
        step = abs(int(fault.get("step_s", 0) * 1000))
        is_near = (d.end >= fault["begin"]) & (d.begin <= fault["end"] + step + CLOCK_MS)
        slack = np.where(is_near, np.maximum(slack, step + CLOCK_MS), slack)
    return slack


def never_early(case: Case) -> Verdict:
    c, d = case.creates, case.deliveries
    wanted = np.full(len(case.keys), NO_TIME, dtype=np.int64)
    wanted[case.index(c.key)] = c.at
    places = case.index(d.key)
    due = np.where(places >= 0, wanted[places], NO_TIME)
    is_judged = (due != NO_TIME) & case.is_leased & (d.task == 0) & ~np.isin(d.key, _moved(case))
    early = np.flatnonzero(is_judged & (d.released_at + _slack(case) < due))
    return verdict(
        "9",
        "No message is delivered before its time",
        is_judged.sum(),
        len(early),
        (f"message {d.key[i]} was delivered {due[i] - d.released_at[i]} ms early" for i in early),
    )


def in_order(case: Case) -> Verdict:
    """Within a dequeue, the messages of a channel are in order of priority, time and id.

    Messages that were created without a time are in the order in which their producer created them.
    """
    c, d = case.creates, case.deliveries
    places = case.index(d.key)
    at, priority = np.zeros(len(case.keys), dtype=np.int64), np.zeros(len(case.keys), dtype=np.int64)
    at[case.index(c.key)], priority[case.index(c.key)] = c.at, c.priority
    rows = np.flatnonzero((places >= 0) & case.is_leased & (d.task == 0))
    rows = rows[~np.isin(d.key[rows], np.concatenate([_moved(case), _made_on_other_clocks(case)]))]
    timed = rows[at[places[rows]] != NO_TIME]
    first, second = _neighbours(case, timed, np.zeros(len(timed), dtype=np.int64))
    order = [(-priority[places[x]], at[places[x]], d.id[x]) for x in (first, second)]
    wrong = _is_greater(*order)
    plain = rows[at[places[rows]] == NO_TIME]
    before, after = _neighbours(case, plain, d.key[plain] // KEYS_PER_PRODUCER)
    swapped = d.key[before] > d.key[after]
    overtaken = [*d.key[second[wrong]], *d.key[after[swapped]]]
    return verdict(
        "11",
        "A consumer gets the messages of a channel in order",
        len(first) + len(before),
        len(overtaken),
        (f"message {key} came after one that sorts behind it" for key in overtaken),
    )


def _made_on_other_clocks(case: Case) -> Ints:
    """Messages that were created while the clock was off."""
    c = case.creates
    found = np.zeros(len(c), dtype=np.bool_)
    for fault in case.evidence.of("clock-step"):
        found |= (c.begin <= fault["end"] + CLOCK_MS) & (c.end >= fault["begin"])
    return np.unique(c.key[found])


def _neighbours(case: Case, rows: Ints, group: Ints) -> tuple[Ints, Ints]:
    """Deliveries of one call, channel and group that follow each other."""
    d = case.deliveries
    order = np.lexsort((d.place[rows], group, d.channel[rows], d.call[rows]))
    rows, group = rows[order], group[order]
    a, b = rows[:-1], rows[1:]
    is_pair = (d.call[a] == d.call[b]) & (d.channel[a] == d.channel[b]) & (group[:-1] == group[1:])
    return a[is_pair], b[is_pair]


def _is_greater(first: tuple[Ints, Ints, Ints], second: tuple[Ints, Ints, Ints]) -> Bools:
    result = np.zeros(len(first[0]), dtype=np.bool_)
    is_equal = np.ones(len(first[0]), dtype=np.bool_)
    for a, b in zip(first, second, strict=True):
        result |= is_equal & (a > b)
        is_equal &= a == b
    return result


def fair(case: Case) -> Verdict:
    """In calm times: channels that all have a backlog are served by their weights.

    The bound is that of docs/concepts.md, and two messages for each consumer whose dequeue is cut off by the
    beginning or the end of the time.
    """
    judged = broken = 0
    examples: list[str] = []
    largest = 0.0
    for calm in case.evidence.of("calm"):
        found = _shares(case, calm)
        if found is None:
            continue
        served, bound = found
        for (a, x), (b, y) in combinations(sorted(served.items()), 2):
            judged += 1
            largest = max(largest, abs(x - y))
            if abs(x - y) > bound:
                broken += 1
                examples.append(
                    f"{case.channel_name(a)} was served {x:.0f} and {case.channel_name(b)} {y:.0f},"
                    f" which may differ by {bound:.0f}"
                )
    note = f"the largest difference was {largest:.0f}" if judged else ""
    return verdict(
        "12, 21", "Channels that compete are served by their weights", judged, broken, iter(examples), note
    )


def _shares(case: Case, calm: Record) -> tuple[dict[int, float], float] | None:
    """What each channel with a backlog was served, divided by its weight, and by how much they may differ."""
    d = case.deliveries
    calls = case.evidence.calls
    is_lost = (
        (calls.kind == 1)
        & (calls.outcome == UNKNOWN)
        & (calls.begin < calm["end"])
        & (calls.end > calm["begin"])
    )
    inside = (d.begin >= calm["begin"]) & (d.end <= calm["end"]) & (d.task == 0)
    inside &= (d.outcome == OK) | (d.outcome == ROLLED_BACK)
    if is_lost.any() or not inside.any():
        return None
    channels = [c for c in case.family("fair") if _has_backlog(case, c, calm)]
    served = {
        channel: float((inside & (d.channel == channel)).sum()) / case.world.channels[channel].weight
        for channel in channels
    }
    _, sizes = np.unique(d.call[inside], return_counts=True)
    consumers = len(np.unique(d.source[inside]))
    return served, float(sizes.max()) + 2 + 4 * consumers


def _has_backlog(case: Case, channel: int, calm: Record) -> bool:
    """Whether messages that were there before were served for the first time only after it."""
    c = case.creates
    rows = (c.channel == channel) & (c.end < calm["begin"] - 1000) & (c.outcome == OK)
    first = case.first_delivery_begin[case.index(np.unique(c.key[rows]))]
    return int(((first > calm["end"]) & np.isfinite(first)).sum()) > 20


RULES = (never_early, in_order, fair)
