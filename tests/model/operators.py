"""The calls that people make: cancel, reschedule, retry and discard dead letters, delete a channel."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.model.machine import FORMS, NAMES, TIMES, QueueMachine

# Which message: waiting, leased, dead, gone, or one that never existed.
WHOM = st.tuples(
    st.sampled_from(["waiting", "waiting", "leased", "leased", "dead", "gone", "unknown"]), st.integers(0, 30)
)
DEAD = st.tuples(st.sampled_from(["dead", "dead", "dead", "waiting", "unknown"]), st.integers(0, 5))


class OperatorQueueMachine(QueueMachine):
    @rule(whom=st.lists(WHOM, min_size=1, max_size=4), form=FORMS)
    def cancel(self, whom: list[tuple[str, int]], form: str) -> None:
        ids = [self.whom(*each) for each in whom]
        self.deliveries.note_removed(self.model, ids)
        assert self.client.cancel(ids, form) == [self.model.cancel(message_id) for message_id in ids]
        self.wrote()

    @precondition(lambda self: self.model.leases())
    @rule(
        number=st.integers(0, 30), then=st.sampled_from(["extend", "complete", "retry", "wait"]), form=FORMS
    )
    def cancel_what_runs(self, number: int, then: str, form: str) -> None:
        self.cancel([("leased", number)], form)
        if then == "extend":
            self.extend([("held", number)], 60_000, form)
        elif then == "complete":
            self.complete([("held", number)], form)
        elif then == "retry":
            self.retry([(("held", number), (("clock", 300), b"step 2", "it broke"), None)], form)
        else:
            self.clock_moves_to_a_lease_end(number, 0, then=True)

    @rule(whom=WHOM, time=TIMES)
    def reschedule(self, whom: tuple[str, int], time: tuple[str, int] | None) -> None:
        message_id, at = self.whom(*whom), self.time(time)
        self.deliveries.note_removed(self.model, [message_id])
        assert self.client.reschedule(message_id, at) == self.model.reschedule(message_id, at)
        self.wrote()

    @precondition(lambda self: self.model.dead)
    @rule(whom=st.lists(DEAD, min_size=1, max_size=4), time=TIMES)
    def dead_retry(self, whom: list[tuple[str, int]], time: tuple[str, int] | None) -> None:
        ids, at = [self.whom(*each) for each in whom], self.time(time)
        results = self.client.dead_retry(ids, at)
        self.model.dead_retry(list(zip(ids, results, strict=True)), at)
        self.wrote()

    @precondition(lambda self: self.model.dead)
    @rule(number=st.integers(0, 5), room=st.integers(0, 3))
    def dead_retry_into_little_room(self, number: int, room: int) -> None:
        """Retry all dead letters of a channel, and create messages that compete for the room."""
        channel = self.model.dead[self.whom("dead", number)].channel
        self.channel_set(channel, None, None, None, None, max(1, self.model.size(channel) + room), None, None)
        ids = [message.id for message in self.model.dead.values() if message.channel == channel]
        results = self.client.dead_retry(ids, None)
        self.model.dead_retry(list(zip(ids, results, strict=True)), None)
        self.create([(channel, b"", None, None, 1, None, None)] * 2, "one")

    @precondition(lambda self: self.model.dead)
    @rule(whom=st.lists(DEAD, min_size=1, max_size=3))
    def dead_discard(self, whom: list[tuple[str, int]]) -> None:
        ids = [self.whom(*each) for each in whom]
        assert self.client.dead_discard(ids) == [self.model.dead_discard(message_id) for message_id in ids]

    @rule(channel=st.sampled_from(NAMES), with_messages=st.booleans(), limit=st.sampled_from([1, 3, 10_000]))
    def channel_delete(self, channel: str, *, with_messages: bool, limit: int) -> None:
        """Afterwards its keys are used again."""
        keys = [key for place, key in sorted(self.model.admission.keys) if place == channel]
        given = (channel, with_messages, limit)
        (answer,) = self.client.rows("SELECT * FROM channel_delete(%s, %s, %s)", *given)
        stored = {row[0] for row in self.client.rows("SELECT id FROM message UNION SELECT id FROM dead")}
        self.deliveries.note_removed(self.model, [i for i in self.model.messages if i not in stored])
        self.model.channel_delete(
            channel, with_messages=with_messages, limit=limit, answer=answer, stored=stored
        )
        self.wrote()
        if keys:
            self.create([(channel, b"", None, None, None, (key, None), None) for key in keys[:2]], "many")

    @rule(limits=st.lists(st.sampled_from([0, 1, 2, 3, 5]), min_size=2, max_size=4), is_done=st.booleans())
    def queue_limit_changes(self, limits: list[int], *, is_done: bool) -> None:
        """While messages are leased."""
        for limit in limits:
            self.queue_set({"max_concurrency": limit, "paused": False})
            self.dequeue(5, 60_000, None)
            if is_done:
                self.complete([("held", 0)], "one")

    # Helpers

    def whom(self, kind: str, number: int) -> int:
        kinds: dict[str, list[int]] = {
            "waiting": [message.id for message in self.model.waiting()],
            "leased": [message.id for message in self.model.leases()],
            "dead": list(self.model.dead),
            "gone": sorted(self.model.gone),
        }
        ids: list[int] = kinds.get(kind, [])
        return ids[number % len(ids)] if ids else 10**9 + number
