"""The server's clock is set forward or back, and later set right."""

from chaos.case import UNSETTLED_MS
from chaos.faults.fault import Scene, fault
from chaos.journal import now_ms

STEPS_S = (20.0, -20.0, 1.5, -1.5, -0.3)
NOTICED_S = UNSETTLED_MS / 1000


@fault("clock-step", one_per=100_000, needs="libfaketime")
def step_clock(scene: Scene) -> None:
    """Set the server's clock by up to 20 s, and back."""
    clock = scene.cluster.clock
    assert clock is not None
    step = scene.random.choice(STEPS_S)
    scene.facts |= {"step_s": step, "steps": [now_ms()]}
    clock.set(step)
    try:
        scene.wait(NOTICED_S, NOTICED_S + 2)
    finally:
        scene.facts["steps"].append(now_ms())
        clock.set(0)
        scene.wait(NOTICED_S)
