"""Compares the engine with its peers: every scenario with every peer, alternating, in several rounds."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console

from benchmarks.bench_server import BenchServer
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
        """Half the distance from the slowest to the fastest run, relative to the median."""
        rates = [sample.rate for sample in self.samples[peer]]
        return (max(rates) - min(rates)) / 2 / statistics.median(rates)

    def ratio(self, peer: str, other: str) -> float:
        """The median ratio of rates that were measured in the same round."""
        pairs = zip(self.samples[peer], self.samples[other], strict=True)
        return statistics.median(a.rate / b.rate for a, b in pairs)


def run(
    server: BenchServer,
    scenarios: Sequence[Scenario],
    peers: Sequence[Peer],
    *,
    rounds: int,
    seconds: int,
    console: Console,
) -> Iterable[Result]:
    for number, scenario in enumerate(scenarios, start=1):
        result = Result(scenario)
        applicable = [peer for peer in peers if scenario.applies_to(peer)]
        for turn in range(min(rounds, scenario.rounds)):
            for peer in applicable if turn % 2 == 0 else reversed(applicable):
                sample = scenario.run(server, peer, seconds)
                result.samples.setdefault(peer.name, []).append(sample)
                console.print(
                    f"[{number}/{len(scenarios)}] {scenario.group}, {scenario.title}: "
                    f"{peer.name} {sample.rate:,.0f}/s",
                    highlight=False,
                )
        yield result
