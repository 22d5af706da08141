"""Other settings than the queue had: what is asked in a simulation."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from lonnymq.errors import InvalidArgument
from lonnymq.rate import interval_us
from lonnymq.rules.policy_log import EffectivePolicy, PolicyLog, QueuePolicy

ACTUAL = "actual"
LARGEST = 2**31 - 1
MAX_BURST = 1_000_000
LEAST_WEIGHT, MOST_WEIGHT = 0.001, 1000.0
_SETTING = re.compile(r"(?P<channel>.+)\.(?P<setting>[^.=]+)=(?P<value>[^=]*)", re.DOTALL)


@dataclass(frozen=True)
class Scenario:
    """What is different from the settings that the queue had.

    `channels` has the changed settings of each channel: `max_concurrency`, `rate` (such as "20/s"), `burst`,
    `weight` and `paused`; 0 means no limit. `consumers` is how many messages are worked on at once, and
    `max_concurrency` the limit of the whole queue. They hold all the time; what is not given stays as it was
    at each time.
    """

    name: str
    channels: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    consumers: int | None = None
    max_concurrency: int | None = None

    def __post_init__(self) -> None:
        for channel, settings in self.channels.items():
            for setting, value in settings.items():
                _checked(channel, setting, value)
        if self.consumers is not None:
            _whole("consumers", self.consumers, 1)
        if self.max_concurrency is not None:
            _whole("max_concurrency", self.max_concurrency, 0)

    def policies(self, log: PolicyLog) -> ScenarioPolicies:
        """The logged policies with the changes of this scenario."""
        changes = {
            channel: dict(_checked(channel, setting, value) for setting, value in settings.items())
            for channel, settings in self.channels.items()
        }
        return ScenarioPolicies(log, changes, self.max_concurrency)

    def check_channels(self, known: Iterable[str]) -> None:
        """Raise InvalidArgument if it changes a channel that is not among the known ones."""
        names = set(known)
        for channel in self.channels:
            if channel not in names:
                close = get_close_matches(channel, names, 1)
                raise InvalidArgument(
                    f"the history has no messages of the channel {channel!r}",
                    f"did you mean {close[0]!r}?" if close else "give a channel that the report lists",
                )


@dataclass(frozen=True)
class ScenarioPolicies:
    """The policies over time, as they were logged and with the changes of a scenario."""

    log: PolicyLog
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_concurrency: int | None = None

    def changes(self, channel: str) -> list[tuple[int, EffectivePolicy]]:
        logged = self.log.changes(channel)
        changed = self.changed.get(channel)
        return [(at, replace(policy, **changed)) for at, policy in logged] if changed else logged

    def queue_changes(self) -> list[tuple[int, QueuePolicy]]:
        logged = self.log.queue_changes()
        if self.max_concurrency is None:
            return logged
        return [(at, replace(policy, max_concurrency=self.max_concurrency or None)) for at, policy in logged]


def parse_settings(texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The settings of a scenario as the command line gives them. The name of a channel may have dots.

    >>> parse_settings(["acme.max_concurrency=4", "eu.west.weight=0.5", "acme.rate=20/s"])
    {'acme': {'max_concurrency': 4, 'rate': '20/s'}, 'eu.west': {'weight': 0.5}}
    """
    found: dict[str, dict[str, Any]] = {}
    for text in texts:
        parts = _SETTING.fullmatch(text)
        if parts is None:
            raise InvalidArgument(
                f"{text!r} is not a setting", "write CHANNEL.SETTING=VALUE, such as acme.max_concurrency=4"
            )
        channel, setting, value = parts["channel"], parts["setting"], parts["value"]
        known = _setting(channel, setting)
        try:
            found.setdefault(channel, {})[setting] = known.read(value)
        except ValueError:
            raise InvalidArgument(f"{text!r}: {value!r} is not {known.kind}", known.hint) from None
        _checked(channel, setting, found[channel][setting])
    return found


@dataclass(frozen=True)
class _Setting:
    """`column` is its name in a policy. `check` returns the value of that column."""

    column: str
    read: Callable[[str], Any]
    check: Callable[[str, Any], Any]
    kind: str
    hint: str


def _whole(name: str, value: object, least: int, most: int = LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(
            f"{name} cannot be {value!r}", f"give a whole number from {least:,} to {most:,}"
        )
    return value


def _weight(name: str, value: object) -> float:
    is_number = type(value) in {int, float} and math.isfinite(value)  # type: ignore[arg-type]
    if not is_number or not LEAST_WEIGHT <= value <= MOST_WEIGHT:  # type: ignore[operator]
        raise InvalidArgument(f"{name} cannot be {value!r}", f"give {LEAST_WEIGHT} to {MOST_WEIGHT:g}")
    return float(value)  # type: ignore[arg-type]


def _truth(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise InvalidArgument(f"{name} cannot be {value!r}", "give true or false")
    return value


def _read_truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()] if text.lower() in {"true", "false"} else _refuse()


def _refuse() -> bool:
    raise ValueError


_SETTINGS = {
    "max_concurrency": _Setting(
        "max_concurrency",
        int,
        lambda name, value: _whole(name, value, 0) or None,
        "a whole number",
        "give how many messages may run at once; 0 means no limit",
    ),
    "rate": _Setting(
        "release_interval_us",
        str,
        lambda _, value: interval_us(value) or None,
        "a rate",
        "give a rate such as 20/s; 0 means no limit",
    ),
    "burst": _Setting(
        "burst",
        int,
        lambda name, value: _whole(name, value, 1, MAX_BURST),
        "a whole number",
        f"give 1 to {MAX_BURST:,}",
    ),
    "weight": _Setting(
        "weight", float, _weight, "a number", f"give a weight from {LEAST_WEIGHT} to {MOST_WEIGHT:g}"
    ),
    "paused": _Setting("paused", _read_truth, _truth, "true or false", "give true or false"),
}


def _setting(channel: str, setting: str) -> _Setting:
    if setting == "max_size":
        raise InvalidArgument(
            f"{channel}.max_size cannot be simulated: it refuses messages, which a history does not have",
            f"change one of {', '.join(_SETTINGS)}",
        )
    if setting not in _SETTINGS:
        raise InvalidArgument(
            f"{setting!r} of the channel {channel!r} is not a setting",
            f"change one of {', '.join(_SETTINGS)}",
        )
    return _SETTINGS[setting]


def _checked(channel: str, setting: str, value: object) -> tuple[str, Any]:
    known = _setting(channel, setting)
    return known.column, known.check(f"{channel}.{setting}", value)
