"""The simulation: an event loop over arrivals, dispatches, dequeues and ends.

It follows the engine in what decides when a message is served:

- A message that becomes due, a slot that becomes free and a token that comes back take effect at the next
  dispatch. While consumers are idle, that is `pickup_ms` later. While all are busy, it is when one of them
  asks for its next message: if the last dispatch was `dispatch_ms` ago or more, or if it finds nothing.
- A dispatch tells each channel with a limit how many messages it may release until the next one (its `room`).
- Consumers take the message with the lowest tag of a lane; those of several lanes take from each in turn.
- A retry becomes due after the end of the attempt before, with the delay that was recorded. Every attempt
  takes
  as long as it took.

Times are whole microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from lonnymq.rules.policy_log import EffectivePolicy, QueuePolicy
from lonnymq.rules.room import channel_room, queue_room
from lonnymq.rules.token_bucket import TokenBucket, changed_bucket
from lonnymq.rules.turns import first_tag, place, tag_step
from lonnymq.simulation.consumers import Consumers
from lonnymq.simulation.runs import Run, followers

END, FREE, ARRIVAL, TOKEN, POLICY, QUEUE_POLICY = range(6)
"""What happens at the same time happens in this order: an end frees its slot before anything is released."""
FAR = 1 << 62
Event = tuple[int, int, int]
"""A time, what happens, and which run, pool, channel or change it concerns."""


class Policies(Protocol):
    """The policy of each channel and of the queue since when, oldest first, in Unix milliseconds."""

    def changes(self, channel: str) -> Sequence[tuple[int, EffectivePolicy]]: ...
    def queue_changes(self) -> Sequence[tuple[int, QueuePolicy]]: ...


def simulate(runs: Sequence[Run], policies: Policies, consumers: Consumers) -> list[int | None]:
    """When each run begins, in microseconds; None: never. The runs can be in any order."""
    return _Queue(runs, policies, consumers).run()


class _Channel:
    __slots__ = (
        "bucket",
        "is_limited",
        "lines",
        "policy",
        "released_at",
        "room",
        "running",
        "timer_at",
        "weight",
    )

    def __init__(self, policy: EffectivePolicy) -> None:
        self.lines: dict[str, _Line] = {}
        self.running = 0
        self.released_at: int | None = None
        self.bucket: TokenBucket | None = None
        self.timer_at = -1
        self.room: int | None = None
        self.apply(policy)

    def apply(self, policy: EffectivePolicy) -> None:
        self.policy = policy
        self.weight = policy.weight
        self.is_limited = (
            policy.paused or policy.max_concurrency is not None or policy.release_interval_us is not None
        )
        self.room = 0 if self.is_limited else None  # what it may release is known after the next dispatch

    def change(self, policy: EffectivePolicy, now: int) -> None:
        self.bucket = changed_bucket(
            self.bucket, policy.release_interval_us, policy.burst, self.released_at, now, is_own=True
        )
        self.apply(policy)

    def measure(self, now: int) -> None:
        """The part of a dispatch that decides what a channel may release."""
        policy = self.policy
        tokens = None
        if policy.release_interval_us is not None:
            tokens = policy.burst if self.bucket is None else self.bucket.tokens(policy.burst, now)
        self.room = channel_room(
            is_paused=policy.paused,
            max_concurrency=policy.max_concurrency,
            leased=self.running,
            tokens=tokens,
        )

    def release(self, now: int) -> None:
        self.running += 1
        self.released_at = now
        if self.room is not None:
            self.room -= 1
        interval = self.policy.release_interval_us
        if interval is not None:
            if self.bucket is None:
                self.bucket = TokenBucket(interval)
            self.bucket.take(now)

    @property
    def token_at(self) -> int | None:
        """When the rate lets it release another message."""
        if self.bucket is None or self.policy.release_interval_us is None or self.policy.paused:
            return None
        return self.bucket.token_at_us(self.policy.burst)

    @property
    def is_waiting(self) -> bool:
        return any(line.waiting for line in self.lines.values())


class _Line:
    """The messages of a channel that wait in one lane. `turn` is that of its entry in the lane; 0: none."""

    __slots__ = ("channel", "lane", "next_tag", "turn", "waiting", "was_empty")

    def __init__(self, channel: _Channel, lane: _Lane) -> None:
        self.channel, self.lane = channel, lane
        self.waiting: list[tuple[tuple[int, int, int], int]] = []
        self.next_tag = -1.0  # it was never served, so it joins after virtual time
        self.turn = 0
        self.was_empty = True


class _Lane:
    __slots__ = ("lines", "pool", "turns", "virtual_time")

    def __init__(self, pool: int) -> None:
        self.pool = pool
        self.lines: list[tuple[float, int, _Line]] = []
        self.virtual_time = 0.0
        self.turns = 0

    def enter(self, line: _Line) -> None:
        """The line may be served: give it a place by its tag, unless it has one."""
        if line.turn or not line.waiting:
            return
        if line.was_empty:
            line.next_tag = first_tag(line.next_tag, self.virtual_time, line.channel.weight)
            line.was_empty = False
        self.turns += 1
        line.turn = self.turns
        heappush(self.lines, (max(line.next_tag, self.virtual_time), self.turns, line))

    def take(self) -> tuple[int, _Line] | None:
        """The next run of this lane, and its line."""
        while self.lines:
            tag, _, line = heappop(self.lines)
            line.turn = 0
            if line.channel.room == 0:
                continue  # another lane has used it up, or its policy has changed; a dispatch brings it back
            self.virtual_time = tag
            line.next_tag = tag
            return heappop(line.waiting)[1], line
        return None


class _Queue:
    def __init__(self, runs: Sequence[Run], policies: Policies, consumers: Consumers) -> None:
        self.runs, self.policies = runs, policies
        self.turnaround = round(1000 * consumers.turnaround_ms)
        self.dispatch_every = round(1000 * consumers.dispatch_ms)
        self.pickup = round(1000 * consumers.pickup_ms)
        self.follower = followers(runs)
        self.began: list[int | None] = [None] * len(runs)
        self.events: list[Event] = []
        self.running = 0
        self.idle = [pool.count for pool in consumers.pools]
        self.pools: list[deque[_Lane]] = [deque() for _ in consumers.pools]
        self.pool_of = {lane: number for number, pool in enumerate(consumers.pools) for lane in pool.lanes}
        self.lanes: dict[str, _Lane] = {}
        self.channels: dict[str, _Channel] = {}
        self.changes: list[tuple[_Channel, EffectivePolicy]] = []
        self.timers: list[_Channel] = []
        self.line_of: list[_Line] = []
        self.arrived: list[int] = []
        self.touched: dict[_Channel, None] = {}  # in order, so that the same runs give the same result
        self.is_queue_touched = True
        self.queue_policy = QueuePolicy()
        self.room: int | None = None
        self.dispatched_at = -FAR
        self.dispatch_at = FAR
        self._prepare()

    def _prepare(self) -> None:
        begin = 1000 * min((run.due_at for run in self.runs), default=0)
        self.line_of = [self._line(run, begin) for run in self.runs]
        following = {after for after in self.follower if after is not None}
        for number, run in enumerate(self.runs):
            if run.is_running:
                self._begin_running(number, run)
            elif number not in following:
                self.events.append((1000 * run.due_at, ARRIVAL, number))
        for at, policy in self.policies.queue_changes():
            if 1000 * at <= begin:
                self.queue_policy = policy
            else:
                self.events.append((1000 * at, QUEUE_POLICY, at))
        heapify(self.events)

    def _line(self, run: Run, begin: int) -> _Line:
        channel = self.channels.get(run.channel)
        if channel is None:
            channel = self.channels[run.channel] = self._channel(run.channel, begin)
        line = channel.lines.get(run.lane)
        if line is None:
            lane = self.lanes.get(run.lane)
            if lane is None:
                lane = self.lanes[run.lane] = _Lane(self.pool_of.get(run.lane, 0))
                self.pools[lane.pool].append(lane)
            line = channel.lines[run.lane] = _Line(channel, lane)
        return line

    def _channel(self, name: str, begin: int) -> _Channel:
        policy = EffectivePolicy()
        later = []
        for at, changed in self.policies.changes(name):
            if 1000 * at <= begin:
                policy = changed
            else:
                later.append((1000 * at, changed))
        channel = _Channel(policy)
        for at, changed in later:
            self.events.append((at, POLICY, len(self.changes)))
            self.changes.append((channel, changed))
        return channel

    def _begin_running(self, number: int, run: Run) -> None:
        line = self.line_of[number]
        self.began[number] = 1000 * run.began_at
        self.running += 1
        self.idle[line.lane.pool] -= 1
        line.channel.release(1000 * run.began_at)
        self.events.append((1000 * run.ended_at, END, number))

    def run(self) -> list[int | None]:
        events = self.events
        handle = (self._end, self._free, self._arrive, self._token, self._change, self._change_queue)
        while events or self.dispatch_at < FAR:
            if events and events[0][0] <= self.dispatch_at:
                now, kind, which = heappop(events)
                handle[kind](now, which)
            else:
                self._dispatch(self.dispatch_at)
        return self.began

    # Events

    def _arrive(self, now: int, number: int) -> None:
        self.arrived.append(number)
        self._request(now, self.line_of[number].lane.pool)

    def _end(self, now: int, number: int) -> None:
        line = self.line_of[number]
        channel = line.channel
        channel.running -= 1
        self.running -= 1
        if channel.is_limited:
            self._touch(channel, now)
        if self.queue_policy.max_concurrency is not None:
            self.is_queue_touched = True
            self._request(now, None)
        after = self.follower[number]
        if after is not None:
            delay = self.runs[after].due_at - self.runs[number].ended_at
            heappush(self.events, (now + 1000 * max(0, delay), ARRIVAL, after))
        heappush(self.events, (now + self.turnaround, FREE, line.lane.pool))

    def _free(self, now: int, pool: int) -> None:
        self.idle[pool] += 1
        is_needed = self.arrived or self.touched or self.is_queue_touched
        if is_needed and now >= self.dispatched_at + self.dispatch_every:
            self.dispatch_at = now
            return
        self._serve(now, pool)
        if is_needed and self.idle[pool] > 0:
            self.dispatch_at = now  # it found nothing

    def _token(self, now: int, which: int) -> None:
        self._touch(self.timers[which], now)

    def _change(self, now: int, which: int) -> None:
        channel, policy = self.changes[which]
        channel.change(policy, now)
        self._touch(channel, now)

    def _change_queue(self, now: int, at: int) -> None:
        self.queue_policy = dict(self.policies.queue_changes())[at]
        self.room = 0
        self.is_queue_touched = True
        self._request(now, None)

    def _touch(self, channel: _Channel, now: int) -> None:
        """What the channel may release has changed. The next dispatch sees it."""
        self.touched[channel] = None
        self._request(now, None)

    def _request(self, now: int, pool: int | None) -> None:
        """A dispatch is needed. If no consumer is idle, the next one that asks for a message does it."""
        if self.idle[pool] > 0 if pool is not None else max(self.idle) > 0:
            self.dispatch_at = min(self.dispatch_at, now + self.pickup)

    # Dispatch and dequeue

    def _dispatch(self, now: int) -> None:
        self.dispatched_at = now
        self.dispatch_at = FAR
        for number in self.arrived:
            run, line = self.runs[number], self.line_of[number]
            line.was_empty = line.was_empty or not line.waiting
            heappush(line.waiting, (place(run.priority, run.dequeue_at, run.message), number))
            if line.channel.is_limited:
                self.touched[line.channel] = None
            else:
                line.lane.enter(line)
        self.arrived.clear()
        for channel in self.touched:
            self._measure(channel, now)
        self.touched.clear()
        self._measure_queue()
        for pool in range(len(self.pools)):
            if self.idle[pool] > 0:
                self._serve(now, pool)

    def _measure(self, channel: _Channel, now: int) -> None:
        channel.measure(now)
        if channel.room != 0:
            for line in channel.lines.values():
                line.lane.enter(line)
        else:
            self._set_timer(channel, now)

    def _set_timer(self, channel: _Channel, now: int) -> None:
        at = channel.token_at
        if at is not None and at > now and at != channel.timer_at and channel.is_waiting:
            channel.timer_at = at
            heappush(self.events, (at, TOKEN, len(self.timers)))
            self.timers.append(channel)

    def _measure_queue(self) -> None:
        self.is_queue_touched = False
        policy = self.queue_policy
        self.room = 0 if policy.paused else queue_room(policy.max_concurrency, self.running)

    def _serve(self, now: int, pool: int) -> None:
        """Idle consumers of a pool take what there is."""
        lanes = self.pools[pool]
        while self.idle[pool] > 0 and self.room != 0:
            for _ in range(len(lanes)):
                lane = lanes[0]
                lanes.rotate(-1)
                taken = lane.take()
                if taken is not None:
                    self._begin(now, pool, *taken)
                    break
            else:
                return

    def _begin(self, now: int, pool: int, number: int, line: _Line) -> None:
        run, channel = self.runs[number], line.channel
        self.began[number] = now
        self.idle[pool] -= 1
        self.running += 1
        if self.room is not None:
            self.room -= 1
        channel.release(now)
        line.next_tag += tag_step(run.cost, channel.weight)
        if channel.room != 0:
            line.lane.enter(line)
        elif channel.policy.release_interval_us is not None:
            self._set_timer(channel, now)
        heappush(self.events, (now + 1000 * max(0, run.ended_at - run.began_at), END, number))
