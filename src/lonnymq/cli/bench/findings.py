"""The results in sentences, with a hint where a measurement calls for one."""

from __future__ import annotations

from collections.abc import Iterator

from lonnymq.cli.bench.parameters import BATCHES
from lonnymq.cli.bench.results import Rate, Results
from lonnymq.formatting import count, duration

OFF = "off"
DIGITS = 2
SLOW_LATENCY_MS = 100.0
BUSY = 0.8
UNSTEADY = 2.0
LONG_ROUND_TRIP_MS = 0.2


def milliseconds(number: float) -> str:
    return duration(number, DIGITS)


def times(factor: float) -> str:
    """
    >>> times(2.345), times(150.4)
    ('2.3 times', '150 times')
    """
    return f"{factor:.{1 if factor < 10 else 0}f} times"  # noqa: PLR2004 - two figures


def sentences(found: Results) -> list[str]:
    return [_on_commits(found), _on_batches(found), *_hints(found)]


def _on_commits(found: Results) -> str:
    settings = found.server.settings
    off = [name for name in ("fsync", "synchronous_commit") if settings.get(name) == OFF]
    commit = milliseconds(found.commit_ms)
    if off:
        return (
            f"A commit takes {commit} and does not wait for the disk, because {off[0]} is off:"
            " a crash can lose messages."
        )
    return (
        f"A durable commit takes {commit}, {milliseconds(found.round_trip_ms)} of it for the round trip."
        " A batch pays that once."
    )


def _on_batches(found: Results) -> str:
    most = BATCHES[-1]
    enqueue, consume = (
        found.rate(what, most).per_second / found.rate(what, 1).per_second for what in ("enqueue", "consume")
    )
    return (
        f"With {count(most)} messages per call, enqueue is {times(enqueue)} as fast as with one, and"
        f" consume {times(consume)}."
    )


def _hints(found: Results) -> Iterator[str]:
    if found.round_trip_ms > max(LONG_ROUND_TRIP_MS, found.flush_ms):
        yield (
            "The round trip takes longer than the rest of a commit: make fewer and larger calls, or run your"
            " programs closer to the server."
        )
    if found.server.is_pooled and found.latency.p50_ms > SLOW_LATENCY_MS:
        yield (
            "A pooler is in between, and notifications do not pass through it: consumers poll once per"
            " second. Give them a direct address to listen on: Queue(..., listen='postgresql://...')."
        )
    busiest = max(found.rates, key=lambda rate: rate.client_cpu)
    if busiest.client_cpu >= BUSY:
        yield (
            f"The clients were busy {busiest.client_cpu:.0%} of the time ({busiest.name}): the limit was"
            " Python and not the server. Use more --clients."
        )
    least_steady = max(found.rates, key=_unsteadiness)
    if _unsteadiness(least_steady) >= UNSTEADY:
        yield (
            f"The best round of {least_steady.name} was {times(_unsteadiness(least_steady))} as fast as the"
            " worst: other work disturbs the measurement, or it needs more --seconds."
        )


def _unsteadiness(rate: Rate) -> float:
    return max(rate.rounds) / min(rate.rounds)
