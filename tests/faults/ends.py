"""A checker of dedupe keys, channel sizes and finished messages, for a queue that keeps a history.

Only times that are certain count: a message exists from when its commit was known until the time in its
history row, which is read before the row is committed. Clients must have seen the same as the history says,
and each row of the history must follow from something a client did.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import LiteralString, NamedTuple

from tests.faults.history import Act, Create, Dead, Finish, Finished, History, Outcome, busiest

ENDED = {"completed", "dead", "cancelled"}

# Each query must return no rows, in every snapshot.
AUDITS: dict[str, LiteralString] = {
    "size: no channel holds more than its max_size": """
        SELECT c.name, COUNT(*), c.max_size FROM channel c JOIN message m ON m.channel = c.name
        WHERE c.max_size IS NOT NULL GROUP BY c.name HAVING COUNT(*) > c.max_size""",
    "size: the counted size less the departures is the number of messages": """
        SELECT * FROM (
            SELECT c.channel, c.size, c.uncounted,
                (SELECT COALESCE(SUM(n), 0) FROM departure d WHERE d.channel = c.channel) AS left,
                (SELECT COUNT(*) FROM message m WHERE m.channel = c.channel AND m.is_counted) AS counted
            FROM capacity c WHERE c.turn = (SELECT MAX(x.turn) FROM capacity x WHERE x.channel = c.channel)) x
        WHERE x.size - x.left <> x.counted""",
    "7: no more leases than the queue allows": """
        SELECT COUNT(*), q.max_concurrency
        FROM lease l CROSS JOIN unnest(l.stubs) s
        JOIN message m ON m.id = s.id AND m.generation = s.generation
        CROSS JOIN queue q
        GROUP BY q.max_concurrency HAVING COUNT(*) > q.max_concurrency""",
    "15: one message per key": """
        SELECT channel, dedupe_key, array_agg(id) FROM message
        WHERE unique_for_ms IS NOT NULL GROUP BY channel, dedupe_key HAVING COUNT(*) > 1""",
    "15: a living message holds its key": """
        SELECT m.id, m.channel, m.dedupe_key FROM message m
        WHERE m.unique_for_ms IS NOT NULL AND NOT EXISTS (
            SELECT FROM dedupe d WHERE d.channel = m.channel AND d.key = m.dedupe_key
                AND d.message_id = m.id AND d.until_at IS NULL)""",
    "15: a key without an expiry belongs to a living message": """
        SELECT d.* FROM dedupe d
        WHERE d.until_at IS NULL AND d.unique_for_ms IS NOT NULL
            AND NOT EXISTS (SELECT FROM message m WHERE m.id = d.message_id)""",
    "history: completed and cancelled messages are gone": """
        SELECT f.id, f.outcome FROM finished f JOIN message m ON m.id = f.id WHERE f.outcome <> 'dead'""",
}


class Life(NamedTuple):
    """When the message certainly existed; `taken_*` is when it took its dedupe key."""

    create: Create
    id: int
    taken_from: int
    taken_to: int
    known_at: float
    end_at: float


class EndChecker:
    """`served` is the count per channel, `keep_ms` how long a key is kept, `sizes` the channels' max_size."""

    def __init__(
        self,
        history: History,
        finished: Sequence[Finished],
        *,
        stored: Iterable[bytes] = (),
        dead: Iterable[Dead] = (),
        keep_ms: int = 0,
        sizes: Mapping[str, int] | None = None,
        served: Mapping[str, int] | None = None,
    ) -> None:
        self._history = history
        self._finished = finished
        self._stored = Counter(stored)
        self._dead_ids = {letter.id for letter in dead}
        self._keep_ms = keep_ms
        self._sizes = sizes or {}
        self._served = served or {}
        self._rows: dict[int, list[Finished]] = defaultdict(list)
        for row in sorted(finished, key=lambda row: row.finished_at):
            self._rows[row.id].append(row)
        self._ids = {row.content: row.id for row in finished}
        self._made = [create for create in history.creates if create.result in {"created", "unknown"}]
        self._deletions = [act for act in history.acts if act.kind == "delete"]
        self._deleted = {act.channel for act in self._deletions}
        self._acts: dict[int, list[Act]] = defaultdict(list)
        for act in history.acts:
            self._acts[act.id].append(act)
        self._finishes: dict[int, list[Finish]] = defaultdict(list)
        for finish in history.finishes:
            self._finishes[finish.id].append(finish)
        self._lives = [life for create in self._made for life in self._lives_of(create)]

    def violations(self) -> list[str]:
        rules = (
            self._one_end,
            self._every_death,
            self._reported_ends_have_rows,
            self._rows_have_a_cause,
            self._rows_match_creates,
            self._one_message_per_key,
            self._duplicates,
            self._size,
            self._full,
            self._counts,
        )
        return [broken for rule in rules for broken in rule()]

    def _id(self, create: Create) -> int | None:
        return self._ids.get(create.content) if create.id is None else create.id

    def _exists(self, create: Create) -> bool:
        """Whether the message was certainly created."""
        return (
            create.outcome is Outcome.OK or create.content in self._ids or bool(self._stored[create.content])
        )

    def _lives_of(self, create: Create) -> Iterator[Life]:
        id_ = self._id(create)
        if id_ is None or not self._exists(create):
            return
        ends = [row.finished_at for row in self._rows.get(id_, [])]
        if create.id is not None:
            known_at = create.done_at if create.outcome is Outcome.OK else inf
            yield Life(create, id_, create.called_at, create.answered_at, known_at, min(ends, default=inf))
        for act in self._acts.get(id_, []):
            if act.result == "retried":
                end_at = min((at for at in ends if at >= act.called_at), default=inf)
                yield Life(create, id_, act.called_at, act.done_at, act.done_at, end_at)

    def _one_end(self) -> Iterator[str]:
        for create in self._made:
            id_ = self._id(create)
            rows = self._rows.get(id_ or 0, [])
            if create.outcome is Outcome.FAIL:
                if rows:
                    yield f"2: message {id_} was rolled back and is in the history"
                continue
            final = [row.outcome for row in rows if row.outcome != "dead"]
            ends = len(final) + self._stored[create.content] + (id_ in self._dead_ids) + self._discards(id_)
            went_with_channel = create.channel in self._deleted and len(rows) > len(final)
            if ends > 1 or (ends == 0 and create.outcome is Outcome.OK and not went_with_channel):
                yield f"history: message {id_} in {create.channel} has {ends} ends: {final}"

    def _discards(self, id_: int | None) -> int:
        return sum(act.result == "discarded" for act in self._acts.get(id_ or 0, []))

    def _every_death(self) -> Iterator[str]:
        """Each time a message died, it stayed dead, was discarded, or was retried."""
        unexplained = 0
        for create in self._made:
            id_ = self._id(create)
            deaths = sum(row.outcome == "dead" for row in self._rows.get(id_ or 0, []))
            retries = sum(act.result == "retried" for act in self._acts.get(id_ or 0, []))
            rest = deaths - retries - (id_ in self._dead_ids) - self._discards(id_)
            if rest < 0:
                yield f"history: message {id_} died {deaths} times, and was retried {retries} times"
            unexplained += rest if create.channel not in self._deleted else 0
        retried = sum(act.count for act in self._history.acts if act.kind == "retry all")
        if unexplained != retried:
            yield f"history: {unexplained} deaths are unexplained, and retry_all retried {retried}"

    def _reported_ends_have_rows(self) -> Iterator[str]:
        """Each reported end has one row in the history, with a time between the call and its answer."""
        reported = [
            (finish.id, finish.result, finish.called_at, finish.done_at)
            for finish in self._history.finishes
            if finish.is_end and finish.outcome is Outcome.OK and finish.result in ENDED
        ] + [
            (act.id, act.result, act.called_at, act.done_at)
            for act in self._history.acts
            if act.result == "cancelled"
        ]
        for id_, result, called_at, done_at in reported:
            rows = [row for row in self._rows[id_] if row.outcome == result]
            if sum(called_at <= row.finished_at <= done_at for row in rows) != 1:
                yield f"history: message {id_} was {result} by {done_at}, and its rows are {rows}"

    def _rows_have_a_cause(self) -> Iterator[str]:
        for row in self._finished:
            if not self._has_cause(row):
                yield f"history: no client caused this row: {row}"

    def _has_cause(self, row: Finished) -> bool:
        finishes = [
            finish
            for finish in self._finishes[row.id]
            if finish.called_at <= row.finished_at <= finish.done_at and finish.outcome is not Outcome.FAIL
        ]
        if any(finish.result == row.outcome for finish in finishes if finish.is_end):
            return True
        if row.outcome == "dead":
            create = next((c for c in self._made if self._id(c) == row.id), None)
            return create is not None and row.attempts == create.max_attempts  # swept, or its answer was lost
        if row.outcome == "cancelled":
            acts = self._acts[row.id]
            return (
                any(a.result == "cancelled" and a.called_at <= row.finished_at <= a.done_at for a in acts)
                # A sweep reads the clock before it looks for leases; a cancel may come in between.
                or any(a.result == "marked" for a in acts)
                or any(
                    d.channel == row.channel and d.called_at <= row.finished_at <= d.done_at
                    for d in self._deletions
                )
            )
        return False

    def _rows_match_creates(self) -> Iterator[str]:
        made = {create.content: create for create in self._made}
        for row in self._finished:
            create = made.get(row.content)
            if (
                create is None
                or create.id not in {None, row.id}
                or (create.channel, create.dedupe_key) != (row.channel, row.dedupe_key)
            ):
                yield f"history: {row} differs from how it was created: {create}"

    def _one_message_per_key(self) -> Iterator[str]:
        """No message takes a key that another message certainly holds."""
        of_key: dict[tuple[str, str], list[Life]] = defaultdict(list)
        for life in self._lives:
            if life.create.dedupe_key is not None:
                of_key[life.create.channel, life.create.dedupe_key].append(life)
        for (channel, key), lives in of_key.items():
            keep_ms = 0 if channel in self._deleted else self._keep_ms
            for one in lives:
                for two in lives:
                    is_held = one.taken_to < two.taken_from and two.taken_to < one.end_at + keep_ms
                    if one.id != two.id and is_held:
                        yield f"15: {two.id} took {channel}/{key}, which {one.id} held until {one.end_at}"

    def _duplicates(self) -> Iterator[str]:
        """A duplicate names a message that may hold the key."""
        known: dict[tuple[str, str | None], set[int | None]] = defaultdict(set)
        for create in self._made:
            known[create.channel, create.dedupe_key].add(self._id(create))
        for create in self._history.creates:
            if create.result != "duplicate":
                continue
            holders = known[create.channel, create.dedupe_key]
            if create.holder not in holders and None not in holders:
                yield f"15: a duplicate of {create.holder}, which does not have the key {create.dedupe_key}"
            elif self._is_long_free(create):
                yield f"15: a duplicate of {create.holder}, whose key was free by {create.called_at}"

    def _is_long_free(self, duplicate: Create) -> bool:
        holder = duplicate.holder or 0
        rows = self._rows.get(holder, [])
        if not rows or rows[-1].outcome == "dead":
            return False
        ends = [finish for finish in self._finishes[holder] if finish.is_end and finish.outcome is Outcome.OK]
        dones = [finish.done_at for finish in ends if finish.result in {"completed", "cancelled"}]
        dones += [act.done_at for act in self._acts.get(holder, []) if act.result == "cancelled"]
        return bool(dones) and max(dones) + self._keep_ms < duplicate.called_at

    def _size(self) -> Iterator[str]:
        for channel, size in self._sizes.items():
            lives = [life for life in self._lives if life.create.channel == channel]
            held, at = busiest((int(life.known_at), life.end_at) for life in lives if life.known_at < inf)
            if held > size:
                yield f"size: {channel} held {held} messages at {at}, more than {size}"

    def _full(self) -> Iterator[str]:
        """When a create returned `full`, the channel may have held max_size messages."""
        for channel, size in self._sizes.items():
            spans = [
                span
                for create in self._made
                if create.channel == channel
                for span in self._possible_lives(create)
            ]
            for create in self._history.creates:
                if create.channel == channel and create.result == "full":
                    most = sum(
                        start <= create.answered_at and create.called_at <= end for start, end in spans
                    )
                    if most < size:
                        yield f"size: {channel} was full with at most {most} messages at {create.answered_at}"

    def _possible_lives(self, create: Create) -> Iterator[tuple[float, float]]:
        """The longest time in which the message may have existed."""
        id_ = self._id(create) or 0
        rows = self._rows.get(id_, [])
        retries = [act for act in self._acts.get(id_, []) if act.result == "retried"]
        if create.outcome is Outcome.FAIL:
            yield create.called_at, create.done_at
        elif retries or not rows or any(row.outcome == "dead" for row in rows):
            yield create.called_at, inf
        else:
            yield create.called_at, self._known_end(rows[-1])

    def _known_end(self, row: Finished) -> float:
        """When a client knew that the end was committed."""
        calls: list[Finish | Act] = [*self._finishes[row.id], *self._acts.get(row.id, [])]
        dones = [
            call.done_at
            for call in calls
            if call.called_at <= row.finished_at <= call.done_at and call.result == row.outcome
        ]
        return min(dones, default=inf)

    def _counts(self) -> Iterator[str]:
        certain = Counter(d.channel for d in self._history.deliveries if d.outcome is Outcome.OK)
        possible = Counter(d.channel for d in self._history.deliveries if d.outcome is Outcome.UNKNOWN)
        for channel, served in self._served.items():
            most = certain[channel] + possible[channel] + 30 * self._history.hidden_dequeues
            if channel not in self._deleted and not certain[channel] <= served <= most:
                yield f"counts: {channel} served {certain[channel]} to {most} messages, but reports {served}"
