"""A fault: its function, and how often it happens."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from chaos.cluster import Cluster
from chaos.crew import Crew
from chaos.journal import Journal
from chaos.world import World

Track = Literal["copies", "processes", "server"]


@dataclass
class Scene:
    """What a fault can act on. `facts` are noted in the journal of faults when it is over."""

    folder: Path
    world: World
    cluster: Cluster
    crew: Crew
    journal: Journal
    random: random.Random
    facts: dict[str, Any] = field(default_factory=dict)

    def wait(self, low_s: float, high_s: float | None = None) -> None:
        """Let the fault last for a while."""
        time.sleep(low_s if high_s is None else self.random.uniform(low_s, high_s))


@dataclass(frozen=True)
class Fault:
    """It happens once per so many messages. `needs` is what the machine must offer for it."""

    name: str
    track: Track
    one_per: int
    run: Callable[[Scene], None]
    needs: str = ""


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, one_per: int, track: Track = "server", *, needs: str = ""
) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Add a fault. `needs` names what the machine must offer: "tmpfs" or "libfaketime"."""

    def add(run: Callable[[Scene], None]) -> Callable[[Scene], None]:
        FAULTS[name] = Fault(name, track, one_per, run, needs=needs)
        return run

    return add
