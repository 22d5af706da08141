"""The engine against its peers: every scenario by every peer, in turns, several rounds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console

from benchmarks.arena import Arena
from benchmarks.measure import Sample
from benchmarks.peers import Peer
from benchmarks.scenarios import Scenario


class Titled(Protocol):
    @property
    def group(self) -> str: ...

    @property
    def title(self) -> str: ...


@dataclass
class Result:
    scenario: Titled
    samples: dict[str, list[Sample]] = field(default_factory=dict)

    def median(self, peer: str, what: str) -> float:
        values: list[float] = [getattr(sample, what) for sample in self.samples[peer]]
        return statistics.median(values)

    def spread(self, peer: str) -> float:
        """Half the way from the slowest to the fastest run, as a share of the median."""
        rates = [sample.rate for sample in self.samples[peer]]
        return (max(rates) - min(rates)) / 2 / statistics.median(rates)

    def ratio(self, ours: str, theirs: str) -> float:
        """Of rates measured in the same round, the median."""
        pairs = zip(self.samples[ours], self.samples[theirs], strict=True)
        return statistics.median(a.rate / b.rate for a, b in pairs)


def run(
    arena: Arena,
    scenarios: Sequence[Scenario],
    peers: Sequence[Peer],
    *,
    rounds: int,
    seconds: int,
    console: Console,
) -> Iterable[Result]:
    for number, scenario in enumerate(scenarios, start=1):
        result = Result(scenario)
        suited = [peer for peer in peers if scenario.suits(peer)]
        for turn in range(min(rounds, scenario.rounds)):
            for peer in suited if turn % 2 == 0 else reversed(suited):
                sample = scenario.run(arena, peer, seconds)
                result.samples.setdefault(peer.name, []).append(sample)
                console.print(
                    f"[{number}/{len(scenarios)}] {scenario.group}, {scenario.title}: "
                    f"{peer.name} {sample.rate:,.0f}/s",
                    highlight=False,
                )
        yield result
