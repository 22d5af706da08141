"""One lease, one completion, and attempts that count: invariants 4, 5, 6 and 14."""

import numpy as np

from chaos.case import COMPLETED, EXTEND, EXTENDED, LOST, NOT_FOUND, RETRIED, Case, Verdict, verdict
from chaos.evidence import OK, Bools, Ints
from chaos.world import PATIENT_ATTEMPTS, POISON_ATTEMPTS, is_poison


def one_live_lease(case: Case) -> Verdict:
    """A delivery is known from the end of its call on; until then the lease may not have begun."""
    d = case.deliveries
    leased = np.flatnonzero(case.is_leased & ~case.is_revocable & (d.task == 0))
    order = leased[np.lexsort((d.end[leased], d.key[leased]))]
    first, second = order[:-1], order[1:]
    # When the second answer came, both leases certainly held.
    until = np.minimum(case.lease_until[first], case.lease_until[second])
    is_double = (d.key[first] == d.key[second]) & (until > d.end[second])
    return verdict(
        "4",
        "At any time a message has one live lease",
        len(order),
        is_double.sum(),
        (
            f"message {d.key[a]} was leased until {case.lease_until[a]:.0f}, and again by {d.end[b]:.0f}"
            for a, b in zip(first[is_double], second[is_double], strict=True)
        ),
    )


def completed_once(case: Case) -> Verdict:
    done = np.flatnonzero(case.is_completed)
    keys, counts = np.unique(case.finished_keys[done], return_counts=True)
    twice = keys[counts > 1]
    effects, times = np.unique(np.array(case.final.effects, dtype=np.int64), return_counts=True)
    doubled = effects[times > 1]
    by_task = done[case.deliveries.task[case.finishes.delivery[done]] == 1]
    missing = np.setdiff1d(case.finished_keys[by_task], effects)
    half = np.intersect1d(np.array(case.final.stored, dtype=np.int64), effects)
    examples = [f"message {key} was completed more than once" for key in [*twice, *doubled]]
    examples += [f"message {key} was completed without what its worker wrote" for key in missing]
    examples += [f"message {key} is stored beside what its worker wrote when it completed it" for key in half]
    return verdict(
        "5",
        "A message is completed at most once, and what a worker writes with it happens once",
        len(keys) + len(effects),
        len(examples),
        iter(examples),
    )


def stays_completed(case: Case) -> Verdict:
    """Also after crashes: a completion is durable."""
    d, f = case.deliveries, case.finishes
    done_at = np.full(len(case.keys), np.inf)
    done = np.flatnonzero(case.is_completed)
    places = case.index(case.finished_keys[done])
    np.minimum.at(done_at, places[places >= 0], f.end[done][places >= 0])
    at = case.index(d.key)
    again = np.flatnonzero((at >= 0) & (d.begin > done_at[at]) & (d.task == 0) & (d.outcome == OK))
    stored = case.index(np.array(case.final.stored, dtype=np.int64))
    back = stored[(stored >= 0) & np.isfinite(done_at[stored])]
    return verdict(
        "5",
        "A completed message stays completed, also after a crash",
        len(done),
        len(again) + len(back),
        (f"message {key} was completed, and is there again" for key in [*d.key[again], *case.keys[back]]),
    )


def zombies_are_refused(case: Case) -> Verdict:
    """Once another delivery of the message is known, the old token does nothing."""
    d, f = case.deliveries, case.finishes
    other = case.next_delivery[f.delivery]
    worked = (f.outcome == OK) & np.isin(f.result, (COMPLETED, RETRIED, EXTENDED)) & (d.task[f.delivery] == 0)
    taken_over = (other >= 0) & (d.begin[other] > d.end[f.delivery]) & (d.end[other] < f.begin)
    wrong = np.flatnonzero(worked & taken_over)
    refused = (f.outcome == OK) & np.isin(f.result, (LOST, NOT_FOUND)) & taken_over
    return verdict(
        "5",
        "A consumer whose lease was taken over is refused",
        (taken_over & (f.outcome == OK)).sum(),
        len(wrong),
        (f"message {case.finished_keys[i]} was finished by a consumer that had lost it" for i in wrong),
        f"{int(refused.sum())} late calls were refused",
    )


def second_ends_do_nothing(case: Case) -> Verdict:
    """After a call that certainly ended the lease, another one with the same token says so."""
    f = case.finishes
    ends = np.flatnonzero((f.outcome == OK) & np.isin(f.result, (COMPLETED, RETRIED)))
    ended_at = np.full(len(case.deliveries), np.inf)
    np.minimum.at(ended_at, f.delivery[ends], f.end[ends])
    is_later = (f.outcome == OK) & (f.begin > ended_at[f.delivery])
    wrong = np.flatnonzero(is_later & ~np.isin(f.result, (LOST, NOT_FOUND)))
    return verdict(
        "6",
        "Ending a lease for a second time does nothing, and says so",
        is_later.sum(),
        len(wrong),
        (f"message {case.finished_keys[i]} was finished twice with one token" for i in wrong),
    )


def live_leases_are_not_refused(case: Case) -> Verdict:
    """While its lease certainly holds, the holder is not told that it is lost."""
    d, f = case.deliveries, case.finishes
    ends = np.flatnonzero(f.kind != EXTEND)
    first_end = np.full(len(d), np.inf)
    np.minimum.at(first_end, f.delivery[ends], f.begin[ends])
    is_first = (f.outcome == OK) & (f.begin <= first_end[f.delivery]) & ~case.is_revocable[f.delivery]
    is_live = is_first & (d.task[f.delivery] == 0) & (d.outcome[f.delivery] == OK)
    is_live &= f.end < d.begin[f.delivery] + d.lease_ms[f.delivery]
    for begin, end in case.unsettled:
        is_live &= ~((d.begin[f.delivery] <= end) & (f.end >= begin))
    for failover in case.failovers:
        is_live &= ~((d.begin[f.delivery] <= failover["taken_over"]) & (f.end >= failover["crash"]))
    wrong = np.flatnonzero(is_live & np.isin(f.result, (LOST, NOT_FOUND)))
    return verdict(
        "5",
        "A consumer keeps its message until its lease ends",
        is_live.sum(),
        len(wrong),
        (f"message {case.finished_keys[i]} was lost before its lease ended" for i in wrong),
    )


def dead_at_the_limit(case: Case) -> Verdict:
    d = case.deliveries
    limits = _attempt_limits(case)
    limited = np.flatnonzero(np.isin(d.key, np.fromiter(limits, np.int64, len(limits))))
    late = limited[d.attempts[limited] > POISON_ATTEMPTS]
    examples = [
        f"message {key} is dead after {attempts} attempts of {limits.get(key, PATIENT_ATTEMPTS)}"
        for key, attempts in case.final.dead
        if attempts != limits.get(key, PATIENT_ATTEMPTS)
    ]
    examples += [f"message {d.key[i]} had attempt {d.attempts[i]} of {POISON_ATTEMPTS}" for i in late]
    return verdict(
        "14",
        "A message is a dead letter exactly when its attempts are used up",
        len(case.final.dead) + len(limited),
        len(examples),
        iter(examples),
    )


def _attempt_limits(case: Case) -> dict[int, int]:
    """How many attempts the messages have that always fail. All others have more than they can use up."""
    c = case.creates
    rows = np.flatnonzero(np.isin(c.channel, case.family("mixed")))
    channels = case.world.channels
    return {
        int(c.key[i]): POISON_ATTEMPTS for i in rows if is_poison(channels[int(c.channel[i])], int(c.key[i]))
    }


def attempts_only_grow(case: Case) -> Verdict:
    """Releases use up no attempt, so the number may stay the same; a crash may undo a dequeue."""
    d = case.deliveries
    leased = np.flatnonzero(case.is_leased & (d.task == 0))
    order = leased[np.lexsort((d.end[leased], d.key[leased]))]
    a, b = order[:-1], order[1:]
    follows = (d.key[a] == d.key[b]) & (d.end[a] < d.begin[b]) & ~case.is_revocable[a]
    for failover in case.failovers:
        if not failover["is_synchronous"]:
            follows &= ~((d.begin[a] < failover["taken_over"]) & (d.begin[b] > failover["crash"]))
    wrong: Bools = follows & (d.attempts[b] < d.attempts[a])
    broken: Ints = np.flatnonzero(wrong)
    return verdict(
        "14",
        "Attempts only grow",
        follows.sum(),
        len(broken),
        (f"message {d.key[a[i]]} was at attempt {d.attempts[a[i]]}, then {d.attempts[b[i]]}" for i in broken),
    )


RULES = (
    one_live_lease,
    completed_once,
    stays_completed,
    zombies_are_refused,
    second_ends_do_nothing,
    live_leases_are_not_refused,
    dead_at_the_limit,
    attempts_only_grow,
)
