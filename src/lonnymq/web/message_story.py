"""What happened to a message, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lonnymq.commands import FinishedMessage, Message, Place, Status
from lonnymq.formatting import count, plural, when

ENDINGS = {
    "completed": "It was completed",
    "dead": "It became a dead letter",
    "cancelled": "It was cancelled or discarded",
}

FIRST_TIME = "A consumer took it for the first time."
REASONS = {
    "paused": "The tenant is paused.",
    "queue paused": "The whole queue is paused.",
    "concurrency": "The tenant runs as many messages as it may.",
    "rate": "The tenant's rate does not allow its next message yet.",
    "queue limit": "The whole queue runs as many messages as it may.",
    "not dispatched": "It waits for a consumer to dispatch: start a worker, if this does not change.",
    "no consumer": "No consumer has asked for this lane for five seconds or more: start a worker.",
    "turn": "The tenant waits for its turn.",
    "next": "The tenant is next: the next consumer that asks for this lane serves it.",
}
"""Why the next message of the tenant and lane is not served now."""


@dataclass(frozen=True, slots=True)
class Event:
    """One moment in the life of a message, past or to come."""

    at: int
    text: str
    error: str | None = None


def status_text(message: Message, now: int) -> str:
    """The status as a sentence."""
    attempt = f"attempt {message.attempts}" + (f" of {message.max_attempts}" if message.max_attempts else "")
    if message.status == "leased":
        who = message.consumer or "A consumer without a name"
        text = f"{who} has it ({attempt}). Its lease ends {when(message.lease_end_at, now)}."
        if message.is_cancelled:
            text += " It is cancelled: its consumer learns of it when it next extends or finishes it."
        return text
    if message.status == "dead":
        return f"It is a dead letter: it failed after {plural(message.attempts, 'attempt')}."
    failed = f" It has failed {plural(message.attempts, 'time')} so far." if message.attempts else ""
    if message.status == "scheduled":
        return f"It is due {when(message.dequeue_at, now)}.{failed}"
    return f"It is due, and waits to be served.{failed}"


def place_text(place: Place) -> str | None:
    """Where a due message is in line, and what the line waits for."""
    if place.place is None:
        return None
    before = count(place.place) + (" or more" if place.is_capped else "")
    noun = "message" if place.place == 1 and not place.is_capped else "messages"
    verb = "is" if noun == "message" else "are"
    line = (
        f"{before} {noun} of its tenant and lane {verb} ahead of it."
        if place.place
        else "It is the first in line."
    )
    if place.ahead:
        return f"{line} The tenant waits for its turn, behind about {plural(place.ahead, 'message')} of all."
    return f"{line} {REASONS.get(place.reason or '', '')}".rstrip()


def finished_text(outcome: str, attempts: int | None, finished_at: int | None, now: int) -> str:
    ending = ENDINGS.get(outcome, "It finished")
    tries = f", after {plural(attempts, 'attempt')}" if attempts else ""
    return f"{ending} {when(finished_at, now)}{tries}."


def story_of(message: Message) -> list[Event]:
    """What is known of a message that waits, is leased or is dead. Only the last errors are kept."""
    is_over = message.status in {"leased", "dead"}
    events = [Event(message.created_at, "It was created."), *_past_deaths(message.past_errors)]
    if message.dequeue_at > message.created_at:
        events.append(Event(message.dequeue_at, f"It {'was' if is_over else 'is'} due{_again(message)}."))
    failed = message.error if message.attempts and message.status != "leased" else None
    if message.status == "dead":
        failed = None  # it is told below
    events += _attempts(message, "and failed" if failed else None, failed)
    if message.lease_end_at is not None:
        events.append(Event(message.lease_end_at, "Its lease ends, unless its consumer extends it."))
    if message.dead_at is not None:
        ending = f"It became a dead letter after {plural(message.attempts, 'attempt')}."
        events.append(Event(message.dead_at, ending, message.error))
    return _in_order(events)


def finished_story(found: Sequence[FinishedMessage]) -> list[Event]:
    """From the history, in which a message that died and was retried is more than once."""
    events = [Event(found[-1].created_at, "It was created.")]
    taken = {one.dequeued_at for one in found}
    for one in found:
        if one.dequeue_at > one.created_at:
            events.append(Event(one.dequeue_at, f"It was due{_again(one)}."))
        events += [event for event in _attempts(one) if event.text != FIRST_TIME or event.at not in taken]
        events.append(_ending(one))
    return _in_order(dict.fromkeys(events))


def _ending(one: FinishedMessage) -> Event:
    tries = f" after {plural(one.attempts, 'attempt')}" if one.attempts else ""
    text = f"{ENDINGS.get(one.outcome, one.outcome)}{tries}."
    if one.outcome != "completed":
        return Event(one.finished_at, text, one.error)
    if one.attempts > 1 and one.error is not None:
        return Event(one.finished_at, f"{text} The attempt before had failed:", one.error)
    return Event(one.finished_at, text)


def known_story(status: Status) -> list[Event]:
    """From the kept result of a message that is not in the history."""
    if status.finished_at is None:
        return []
    return [Event(status.finished_at, f"{ENDINGS.get(status.status, status.status)}.", status.error)]


def _again(message: Message | FinishedMessage) -> str:
    first = message.first_dequeued_at
    return " again" if first is not None and message.dequeue_at > first else ""


def _past_deaths(past_errors: Any) -> list[Event]:
    return [
        Event(
            past["at"],
            f"It became a dead letter after {plural(past['attempts'], 'attempt')}, and was retried later.",
            past.get("error"),
        )
        for past in past_errors or ()
    ]


def _attempts(
    message: Message | FinishedMessage, ending: str | None = None, error: str | None = None
) -> list[Event]:
    events = []
    if message.first_dequeued_at is not None and message.first_dequeued_at != message.dequeued_at:
        events.append(Event(message.first_dequeued_at, FIRST_TIME))
    if message.dequeued_at is not None:
        who = message.consumer or "A consumer"
        which = f" for attempt {message.attempts}" if message.attempts else ""
        tail = f", {ending}." if ending else "."
        events.append(Event(message.dequeued_at, f"{who} took it{which}{tail}", error))
    return events


def _in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event.at)
