"""Why a channel is not served, as sentences for people, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lonnymq.formatting import count, duration, exactly, plural, printable

if TYPE_CHECKING:
    from lonnymq.commands import ChannelExplanation

WORKERS = "`lonnymq workers list` shows which workers run"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Sentences, each with a full stop. `due` is what waits, or empty if nothing is due; `advice` names
    commands of the command line, and is empty if there is nothing to do.
    """

    due: str
    reason: str
    advice: str = ""

    @property
    def text(self) -> str:
        """
        >>> Explanation("", "The channel is paused.", "Resume it.").text
        'The channel is paused: resume it.'
        """
        why = f"{self.due} {self.reason}" if self.due else self.reason
        return f"{why[:-1]}: {self.advice[0].lower()}{self.advice[1:]}" if self.advice else why


def explanation(channel: str, found: ChannelExplanation, now: int) -> Explanation:
    if found.lane is None:
        return _nothing_due(printable(channel), found, now)
    due = f"{printable(channel)} has {plural(found.due, 'due message')} in lane {printable(found.lane)}"
    since = "" if found.since_at is None else f", the next one for {duration(max(0, now - found.since_at))}"
    return Explanation(f"{due}{since}.", *_REASONS[found.reason](printable(shlex.quote(channel)), found, now))


def _nothing_due(channel: str, found: ChannelExplanation, now: int) -> Explanation:
    if found.reason == "not dispatched":
        reason = f"{channel} may have due messages, but no consumer dispatches them."
        return Explanation("", reason, f"Start a worker; {WORKERS}.")
    running = f" {plural(found.leased, 'message')} of it {'is' if found.leased == 1 else 'are'} running."
    if found.reason == "scheduled":
        text = f"{channel} has no due messages. The next one is scheduled: {exactly(found.until_at, now)}."
    else:
        text = f"{channel} has no waiting messages."
    return Explanation("", text + (running if found.leased else ""))


ReasonAndAdvice = tuple[str, str]


def _paused(name: str, _found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    return "The channel is paused.", f"Serve it again with `lonnymq channels resume {name}`."


def _queue_paused(_name: str, _found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    return "The whole queue is paused.", "Serve it again with `lonnymq queue set --not-paused`."


def _concurrency(name: str, found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    used, allowed = found.used or 0, found.allowed or 0
    what = "running" if found.leased >= allowed else "running, or next in another lane"
    command = f"lonnymq channels set {name} --max-concurrency {2 * allowed}"
    return (
        f"It has {count(used)} of {count(allowed)} messages {what}.",
        f"Raise its limit with `{command}`, or wait for one to finish.",
    )


def _rate(name: str, found: ChannelExplanation, now: int) -> ReasonAndAdvice:
    wait = max(0, (found.until_at or now) - now)
    return (
        f"Its rate allows the next one in {duration(wait)}.",
        f"Raise the rate with `lonnymq channels set {name} --rate RATE`, or wait.",
    )


def _queue_limit(_name: str, found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    used, allowed = found.used or 0, found.allowed or 0
    command = f"lonnymq queue set --max-concurrency {2 * allowed}"
    return (
        f"The whole queue has {count(used)} of {count(allowed)} messages running.",
        f"Raise its limit with `{command}`, or wait for one to finish.",
    )


def _not_dispatched(_name: str, _found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    return "It waits for a consumer to dispatch.", f"Start a worker, if this does not change; {WORKERS}."


def _no_consumer(_name: str, found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    command = f"lonnymq worker APP --lanes {printable(shlex.quote(found.lane or ''))}"
    return (
        "No consumer has asked for this lane for five seconds or more.",
        f"Start a worker that serves it (`{command}`); {WORKERS}, and whether they are busy or paused.",
    )


def _turn(name: str, found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    if found.ahead is None:
        return "It waits for its turn.", ""
    return (
        f"It waits for its turn, behind about {plural(found.ahead, 'message')} of all channels.",
        f"Start more workers, or raise its share with `lonnymq channels set {name} --weight WEIGHT`.",
    )


def _next(_name: str, _found: ChannelExplanation, _now: int) -> ReasonAndAdvice:
    return "It is next: the next consumer that asks for this lane gets it.", ""


_REASONS: dict[str, Callable[[str, ChannelExplanation, int], ReasonAndAdvice]] = {
    "paused": _paused,
    "queue paused": _queue_paused,
    "concurrency": _concurrency,
    "rate": _rate,
    "queue limit": _queue_limit,
    "not dispatched": _not_dispatched,
    "no consumer": _no_consumer,
    "turn": _turn,
    "next": _next,
}
