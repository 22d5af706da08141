"""What the statistics of the queue and its channels must be after a dispatch."""

from typing import Any

from tests.model.client import Client
from tests.model.queue_model import Message, QueueModel

OF_CHANNELS = """
    SELECT s.channel, s.waiting, s.due, s.scheduled, s.leased, s.dead, s.served, s.last_served_at,
        s.blocked_by, s.max_concurrency, s.release_interval_us, s.burst, s.paused,
        s.max_size, s.weight, s.inherited, s.oldest_due_ms
    FROM unnest(%s::TEXT[]) WITH ORDINALITY n (name, ord) CROSS JOIN channel_stats(n.name) s ORDER BY n.ord"""
OF_QUEUE = """
    SELECT waiting, due, scheduled, leased, dead, served, running, max_concurrency, paused, blocked_by
    FROM queue_stats()"""


def check_statistics(client: Client, model: QueueModel, channels: list[str]) -> None:
    for *row, oldest_due_ms in client.rows(OF_CHANNELS, channels):
        channel = row[0]
        expected = _of_channel(model, channel)
        assert tuple(row) == expected, f"channel_stats({channel!r}): {row}, not {expected}"
        _check_oldest(model, channel, oldest_due_ms)
    [row], expected = client.rows(OF_QUEUE), _of_queue(model, channels)
    assert row == expected, f"queue_stats(): {row}, not {expected}"


def _of_channel(model: QueueModel, channel: str) -> tuple[Any, ...]:
    waiting, due = len(model.waiting(channel)), len(model.due(channel))
    policy = model.policy(channel)
    return (
        channel,
        waiting,
        due,
        waiting - due,
        len(model.leases(channel)),
        sum(1 for message in model.dead.values() if message.channel == channel),
        model.served.get(channel, 0),
        model.released_at.get(channel),
        _blocked_by(model, channel),
        policy.max_concurrency,
        policy.release_interval_us,
        policy.burst,
        policy.paused,
        policy.max_size,
        policy.weight,
        policy.inherited,
    )


def _of_queue(model: QueueModel, channels: list[str]) -> tuple[Any, ...]:
    waiting, due = len(model.waiting()), sum(len(model.due(channel)) for channel in channels)
    now = model.settings
    return (
        waiting,
        due,
        waiting - due,
        len(model.leases()),
        len(model.dead),
        model.served_total,
        None if now.max_concurrency is None else len(model.leases()),
        now.max_concurrency,
        now.paused,
        _nothing_due(waiting, due) or ("paused" if now.paused else _queue_limit(model)),
    )


def _blocked_by(model: QueueModel, channel: str) -> str | None:
    """The first reason that would remain if those before it went away."""
    nothing_due = _nothing_due(len(model.waiting(channel)), len(model.due(channel)))
    if nothing_due:
        return nothing_due
    if model.policy(channel).paused or model.settings.paused:
        return "paused"
    if model.is_full(channel):
        return "concurrency"
    if model.ready_at(channel) > model.now:
        return "rate"
    return _queue_limit(model)


def _nothing_due(waiting: int, due: int) -> str | None:
    if not waiting:
        return "empty"
    return None if due else "scheduled"


def _queue_limit(model: QueueModel) -> str | None:
    return None if model.settings.paused or model.room(1) else "queue limit"


def _check_oldest(model: QueueModel, channel: str, oldest_due_ms: int | None) -> None:
    """The oldest is looked for at the heads of lines: urgent messages there may hide older ones."""
    due = model.due(channel)
    if not due:
        assert oldest_due_ms is None
        return
    assert oldest_due_ms is not None
    oldest = max(_age(model, message) for message in due)
    is_plain = all(message.dequeue_at >= message.created_at for message in due)
    at_least = oldest if is_plain else min(_age(model, message) for message in due)
    assert at_least <= oldest_due_ms <= oldest, f"oldest_due_ms of {channel!r}"


def _age(model: QueueModel, message: Message) -> int:
    return model.now - max(message.dequeue_at, message.created_at)
