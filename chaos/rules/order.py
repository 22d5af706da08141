"""When and in which order messages are delivered: invariants 9, 11, 12 and 21."""

from itertools import combinations

import numpy as np

from chaos.case import RETRIED, Case, Verdict, verdict
from chaos.evidence import NO_TIME, OK, ROLLED_BACK, UNKNOWN, Bools, Ints
from chaos.journal import Record
from chaos.world import KEYS_PER_PRODUCER

LOST_MS = 2000  # the server is done with a call of a killed client after this time
CLOCK_MS = 5000  # how long a step of the clock may still show in times, besides its size


def _moved(case: Case) -> Ints:
    """Messages that were perhaps given back for another time."""
    f = case.finishes
    return np.unique(case.finished_keys[f.retry_at != NO_TIME])


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
    """Neither before the time of its create, nor before the time for which it was given back."""
    c, d, f = case.creates, case.deliveries, case.finishes
    wanted = np.full(len(case.keys), NO_TIME, dtype=np.int64)
    wanted[case.index(c.key)] = c.at
    places = case.index(d.key)
    due = np.where(places >= 0, wanted[places], NO_TIME)
    is_judged = (due != NO_TIME) & case.is_leased & (d.task == 0) & ~np.isin(d.key, _moved(case))
    given_back = np.flatnonzero((f.retry_at != NO_TIME) & (f.outcome == OK) & (f.result == RETRIED))
    again = case.next_delivery[f.delivery[given_back]]
    given_back, again = given_back[again >= 0], again[again >= 0]
    rows = np.concatenate([np.flatnonzero(is_judged), again])
    times = np.concatenate([due[is_judged], f.retry_at[given_back]])
    early_ms = times - (d.released_at + _slack(case))[rows]
    early = np.flatnonzero(early_ms > 0)
    return verdict(
        "9",
        "No message is delivered before its time",
        len(rows),
        len(early),
        (f"message {d.key[rows[i]]} was delivered {early_ms[i]} ms early" for i in early),
    )


def in_order(case: Case) -> Verdict:
    """Within a dequeue, the messages of a channel are in order of priority, time and id.

    Messages that were created without a time are in the order in which their producer created them, if every
    create was answered: the server may carry out an unanswered one beside the producer's next call.
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
    plain = rows[(at[places[rows]] == NO_TIME) & ~np.isin(d.key[rows], c.key[c.outcome == UNKNOWN])]
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

    The bound is that of docs/concepts.md, and four messages more for each consumer, whose dequeue may be cut
    off by the beginning or the end of the time.
    """
    judged = broken = 0
    examples: list[str] = []
    largest = largest_bound = 0.0
    least = np.inf
    for calm in case.evidence.of("calm"):
        found = _shares(case, calm)
        if found is None:
            continue
        served, bound = found
        if len(served) > 1:
            largest_bound, least = max(largest_bound, bound), min(least, *served.values())
        for (a, x), (b, y) in combinations(sorted(served.items()), 2):
            judged += 1
            largest = max(largest, abs(x - y))
            if abs(x - y) > bound:
                broken += 1
                examples.append(
                    f"{case.channel_name(a)} was served {x:.0f} and {case.channel_name(b)} {y:.0f},"
                    f" which may differ by {bound:.0f}"
                )
    note = (
        f"the largest difference was {largest:.0f}, which may be {largest_bound:.0f};"
        f" each channel was served at least {least:.0f} for each unit of its weight"
        if judged
        else ""
    )
    return verdict(
        "12, 21", "Channels that compete are served by their weights", judged, broken, iter(examples), note
    )


def _shares(case: Case, calm: Record) -> tuple[dict[int, float], float] | None:
    """What each channel with a backlog was served, divided by its weight, and by how much they may differ."""
    d = case.deliveries
    calls = case.evidence.calls
    # Dequeues whose messages are not known. A killed client's call has no end.
    is_lost = (calls.kind == 1) & (calls.outcome == UNKNOWN) & (calls.end > calm["begin"])
    is_lost &= (calls.begin < calm["end"]) & (calls.begin > calm["begin"] - LOST_MS)
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
