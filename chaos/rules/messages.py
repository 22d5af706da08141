"""Nothing vanishes, nothing appears: invariants 1, 2, 3 and 15."""

import numpy as np

from chaos.case import CREATED, DUPLICATE, Case, Verdict, verdict
from chaos.evidence import FAILED, OK, ROLLED_BACK, Bools, Ints


def _created(case: Case) -> Bools:
    """Which messages were certainly created."""
    c = case.creates
    is_sure = (c.outcome == OK) & ((c.result == CREATED) | (c.result == DUPLICATE))
    found = np.zeros(len(case.keys), dtype=np.bool_)
    found[case.index(c.key[is_sure])] = True
    return found


def _marked(case: Case, keys: Ints) -> Bools:
    found = np.zeros(len(case.keys), dtype=np.bool_)
    places = case.index(keys)
    found[places[places >= 0]] = True
    return found


def nothing_vanishes(case: Case) -> Verdict:
    created = _created(case)
    final = case.final
    ended = _marked(case, case.finished_keys[case.ended_maybe])
    dead = _marked(case, np.array([key for key, _ in final.dead], dtype=np.int64))
    stored = _marked(case, np.array(final.stored, dtype=np.int64))
    effects = _marked(case, np.array(final.effects, dtype=np.int64))
    lost = np.flatnonzero(created & ~(ended | dead | stored | effects))
    return verdict(
        "1",
        "A committed message is completed, a dead letter, or still stored",
        created.sum(),
        len(lost),
        (f"message {case.keys[i]} vanished" for i in lost),
        lost_to_standby(case),
    )


def lost_to_standby(case: Case) -> str:
    """What asynchronous failovers lost, of what the standby had not received."""
    if not any(not f["is_synchronous"] for f in case.failovers):
        return ""
    seen = _marked(case, case.deliveries.key) | _marked(case, np.array(case.final.stored, dtype=np.int64))
    doubtful = np.unique(case.creates.key[case.doubtful_creates])
    lost = int((~seen[case.index(doubtful)]).sum())
    return (
        f"the standby had not received {len(doubtful)} creates, of which {lost} were lost,"
        f" and {int(case.doubtful_finishes.sum())} endings"
    )


def nothing_rolled_back_is_seen(case: Case) -> Verdict:
    c, d = case.creates, case.deliveries
    is_void = (c.outcome == ROLLED_BACK) | (c.outcome == FAILED)
    is_void |= (c.outcome == OK) & (c.result != CREATED) & (c.result != DUPLICATE)
    possible = _marked(case, c.key[~is_void])
    void = ~possible
    places = case.index(np.concatenate([d.key, np.array(case.final.stored, dtype=np.int64)]))
    seen = places[(places >= 0) & void[places]]
    return verdict(
        "2",
        "A message whose create was rolled back or refused is never seen",
        void.sum(),
        len(np.unique(seen)),
        (f"message {case.keys[i]} was not created, and delivered or stored" for i in seen),
    )


def nothing_unexpected(case: Case) -> Verdict:
    c, d = case.creates, case.deliveries
    places = case.index(d.key)
    channels = np.full(len(case.keys), -2)
    channels[case.index(c.key)] = c.channel
    wrong = np.flatnonzero((places < 0) | (channels[places] != d.channel))
    return verdict(
        "3",
        "What is delivered was created, with these bytes and in this channel",
        len(d),
        len(wrong),
        (
            f"message {d.key[i]} (id {d.id[i]}) in {case.channel_name(d.channel[i])}"
            + (
                " has other bytes, or nobody created it"
                if places[i] < 0
                else " was created in another channel"
            )
            for i in wrong
        ),
    )


def one_message_per_key(case: Case) -> Verdict:
    """Creates that were repeated with their dedupe key made one message each; so did all others."""
    d = case.deliveries
    is_known = case.is_leased & (case.index(d.key) >= 0)
    pairs = np.unique(np.stack([d.key[is_known], d.id[is_known]]), axis=1)
    keys, counts = np.unique(pairs[0], return_counts=True)
    doubled = keys[counts > 1]
    if any(not f["is_synchronous"] for f in case.failovers):  # the create, or its id, may have been lost
        doubled = np.setdiff1d(doubled, case.creates.key[case.doubtful_creates])
    repeated = case.creates.keyed == 1
    tries, times = np.unique(case.creates.key[repeated], return_counts=True)
    return verdict(
        "15",
        "A create that is repeated with its dedupe key makes one message",
        len(keys),
        len(doubled),
        (f"message {key} has several ids" for key in doubled),
        f"{int((times > 1).sum())} of {len(tries)} with a key were created again after a lost answer",
    )


RULES = (nothing_vanishes, nothing_rolled_back_is_seen, nothing_unexpected, one_message_per_key)
