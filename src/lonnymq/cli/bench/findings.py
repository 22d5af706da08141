"""What the numbers say, in sentences. A hint is given only where something was measured that calls for it."""

from __future__ import annotations

from collections.abc import Iterator

from lonnymq.cli.bench.parameters import BATCHES
from lonnymq.cli.bench.results import Rate, Results
from lonnymq.cli.formatting import count

OFF = "off"
NOT_AT_ONCE_MS = 100.0
BUSY = 0.8
UNSTEADY = 2.0
FAR_MS = 0.2


def milliseconds(number: float) -> str:
    """
    >>> milliseconds(0.0512), milliseconds(2.34), milliseconds(48.6), milliseconds(1234)
    ('0.051 ms', '2.3 ms', '49 ms', '1.2 s')
    """
    if number >= 1000:  # noqa: PLR2004 - to a second
        return f"{number / 1000:.1f} s"
    digits = 3 if number < 0.1 else 2 if number < 1 else 1 if number < 10 else 0  # noqa: PLR2004 - two figures
    return f"{number:.{digits}f} ms"


def times(factor: float) -> str:
    """
    >>> times(2.345), times(150.4)
    ('2.3 times', '150 times')
    """
    return f"{factor:.{1 if factor < 10 else 0}f} times"  # noqa: PLR2004 - two figures


def sentences(found: Results) -> list[str]:
    return [_on_commits(found), _on_batches(found), *_hints(found)]


def _on_commits(found: Results) -> str:
    settings = found.surroundings.settings
    off = [name for name in ("fsync", "synchronous_commit") if settings.get(name) == OFF]
    commit = milliseconds(found.commit_ms)
    if off:
        return f"A commit takes {commit} here and waits for no disk, as {off[0]} is off: a crash loses some."
    return (
        f"A durable commit takes {commit} here, {milliseconds(found.round_trip_ms)} of it the way there and"
        " back: a batch pays that once."
    )


def _on_batches(found: Results) -> str:
    most = BATCHES[-1]
    create, consume = (
        found.rate(what, most).per_second / found.rate(what, 1).per_second for what in ("create", "consume")
    )
    return (
        f"With {count(most)} a call, {times(create)} as many are created in a second as one by one, and"
        f" {times(consume)} as many taken and completed."
    )


def _hints(found: Results) -> Iterator[str]:
    if found.round_trip_ms > max(FAR_MS, found.flush_ms):
        yield (
            "The way to the server takes longer than what it does for a commit: make fewer and larger calls,"
            " or run the programs nearer to it."
        )
    if found.surroundings.is_pooled and found.lone_message.p50_ms > NOT_AT_ONCE_MS:
        yield (
            "There is a pooler in between, through which nobody is notified: consumers look every second."
            " Queue(..., listen='postgresql://...') takes an address that goes around it."
        )
    busiest = max(found.rates, key=lambda rate: rate.client_cpu)
    if busiest.client_cpu >= BUSY:
        yield (
            f"The clients themselves were at work {busiest.client_cpu:.0%} of the time ({busiest.name}):"
            " there Python was the limit and not the server. --clients takes more."
        )
    shakiest = max(found.rates, key=_unsteadiness)
    if _unsteadiness(shakiest) >= UNSTEADY:
        yield (
            f"The best round of {shakiest.name} was {times(_unsteadiness(shakiest))} the worst:"
            " something else is going on there, or --seconds are too few."
        )


def _unsteadiness(rate: Rate) -> float:
    return max(rate.rounds) / min(rate.rounds)
