"""Limits are never exceeded: invariants 7 and 10, sizes and pauses."""

from collections.abc import Iterator

import numpy as np

from chaos.case import CREATED, Case, Verdict, verdict
from chaos.evidence import OK, Floats, Ints
from chaos.journal import Record

LAG_MS = 10_000  # around an asynchronous failover, policies that change are not judged


def running_at(starts: Floats, ends: Floats, at: Floats) -> Ints:
    """How many of the intervals contain each time. An interval does not contain its end."""
    begun = np.searchsorted(np.sort(starts), at, side="right")
    over = np.searchsorted(np.sort(ends), at, side="right")
    return np.asarray(begun - over, dtype=np.int64)


def concurrency(case: Case) -> Verdict:
    """At the end of each dequeue: how many leases of the channel certainly hold, and which limit applied."""
    d = case.deliveries
    judged = broken = 0
    examples: list[str] = []
    for channel in case.family("limited", "changed"):
        rows = np.flatnonzero((d.channel == channel) & case.is_leased & (d.task == 0))
        starts, ends = d.end[rows], case.lease_until[rows]
        is_real = ends > starts
        running = running_at(starts[is_real], ends[is_real], starts)
        limits = _limits(case, channel, d.begin[rows], d.end[rows])
        wrong = np.flatnonzero((limits > 0) & (running > limits))
        judged += int((limits > 0).sum())
        broken += len(wrong)
        examples += [
            f"{case.channel_name(channel)}: {running[i]} leases at {starts[i]:.0f}, limit {limits[i]:.0f}"
            for i in wrong
        ]
    return verdict("7", "Leases of a channel never exceed its limit", judged, broken, iter(examples))


def _limits(case: Case, channel: int, begins: Floats, ends: Floats) -> Floats:
    """The highest limit that applied at any time of each interval; 0: perhaps none."""
    first = case.world.channels[channel].max_concurrency
    changes: list[Record] = sorted(
        (p for p in case.evidence.policies if p["channel"] == channel and "max_concurrency" in p),
        key=lambda p: p["begin"],
    )
    # Each value applies from the begin of its call to the end of the next one.
    values: list[tuple[float, float, float]] = []
    begin, value = -np.inf, float(first)
    for change in changes:
        values.append((begin, change["end"], value))
        is_sure = change["outcome"] == "ok"
        begin, value = change["begin"], float(change["max_concurrency"]) if is_sure else 0.0
    values.append((begin, np.inf, value))
    limits = np.zeros(len(begins))
    is_free = np.zeros(len(begins), dtype=np.bool_)
    for since, until, limit in values:
        applies = (begins <= until) & (ends >= since)
        if limit == 0:
            is_free |= applies
        else:
            limits = np.where(applies, np.maximum(limits, limit), limits)
    for begin, end in _lagging(case):  # a standby that lagged may lack the last policies
        is_free |= (begins <= end) & (ends >= begin)
    return np.where(is_free, 0.0, limits)


def _lagging(case: Case) -> Iterator[tuple[float, float]]:
    for failover in case.failovers:
        if not failover["is_synchronous"]:
            yield failover["crash"] - LAG_MS, failover["taken_over"] + LAG_MS


def pauses(case: Case) -> Verdict:
    d = case.deliveries
    judged = 0
    broken: list[int] = []
    for channel, begin, end in _pauses(case):
        rows = np.flatnonzero((d.channel == channel) & case.is_leased & (d.begin > begin) & (d.end < end))
        judged += 1
        broken += [int(row) for row in rows]
    return verdict(
        "7",
        "Nothing of a paused channel is delivered",
        judged,
        len(broken),
        (f"message {d.key[i]} of {case.channel_name(d.channel[i])} at {d.end[i]:.0f}" for i in broken),
    )


def _pauses(case: Case) -> Iterator[tuple[int, float, float]]:
    """From when a pause was known to hold until its end was requested."""
    paused: dict[int, float] = {}
    for change in sorted(case.evidence.policies, key=lambda p: p["begin"]):
        if "paused" not in change:
            continue
        channel = change["channel"]
        if channel in paused:
            begin, end = paused.pop(channel), change["begin"]
            if not any(since < end and begin < until for since, until in _lagging(case)):
                yield channel, begin, end
        if change["paused"] and change["outcome"] == "ok":
            paused[channel] = change["end"]


def rates(case: Case) -> Verdict:
    """By the server's clock: over any time t a channel starts at most burst + t / interval messages.

    The count begins again after a crash, which may undo what the dispatcher knew, and after a clock step.
    """
    d = case.deliveries
    crashes = [at for crash in case.crashes for at in crash]
    cuts = np.sort(np.array(crashes + [at for _, at in case.unsettled], dtype=np.float64))
    judged = broken = 0
    examples: list[str] = []
    for channel in case.family("rated"):
        policy = case.world.channels[channel]
        rows = np.flatnonzero((d.channel == channel) & case.is_leased & (d.task == 0))
        lifted = [p["begin"] for p in case.evidence.policies if p["channel"] == channel]
        rows = rows[d.end[rows] < min(lifted, default=np.inf)]
        rows = rows[np.argsort(d.end[rows], kind="stable")]
        for begin, end in [*case.unsettled, *case.crashes]:
            rows = rows[(d.end[rows] < begin) | (d.begin[rows] > end)]
        segments = np.searchsorted(cuts, d.end[rows])
        for segment in np.unique(segments):
            released = np.sort(d.released_at[rows[segments == segment]])
            judged += len(released)
            for at, allowed in _too_soon(released, policy.interval_us, policy.burst):
                broken += 1
                examples.append(f"{policy.name}: one at {at}, {allowed:.0f} ms too soon")
    return verdict("10", "Rates are never exceeded", judged, broken, iter(examples))


def _too_soon(released: Ints, interval_us: int, burst: int) -> Iterator[tuple[int, float]]:
    """A token bucket that is exact to a millisecond, which is the unit of the times."""
    full_at = -np.inf
    interval = interval_us / 1000
    for at in released:
        allowed_from = full_at - (burst - 1) * interval
        if at < allowed_from - 1:
            yield int(at), allowed_from - at
        full_at = max(full_at, float(at)) + interval


def sizes(case: Case) -> Verdict:
    """A channel with a size never holds more: counted are messages that are certainly there."""
    c, f = case.creates, case.finishes
    judged = broken = 0
    examples: list[str] = []
    gone_at = np.full(len(case.keys), np.inf)
    ended = np.flatnonzero(case.ended_maybe)
    places = case.index(case.finished_keys[ended])
    np.minimum.at(gone_at, places[places >= 0], f.begin[ended][places >= 0])
    for channel in case.family("sized"):
        limit = case.world.channels[channel].max_size
        rows = np.flatnonzero((c.channel == channel) & (c.outcome == OK) & (c.result == CREATED))
        starts, ends = c.end[rows], gone_at[case.index(c.key[rows])]
        is_real = ends > starts
        stored = running_at(starts[is_real], ends[is_real], starts)
        wrong = np.flatnonzero(stored > limit)
        judged += len(rows)
        broken += len(wrong)
        examples += [f"{case.channel_name(channel)}: {stored[i]} messages, limit {limit}" for i in wrong]
    return verdict("7", "A channel never holds more than its size", judged, broken, iter(examples))


RULES = (concurrency, pauses, rates, sizes)
