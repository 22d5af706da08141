"""The disk is full for a while."""

from chaos.faults.fault import Scene, fault
from chaos.journal import now_ms


@fault("disk-full", one_per=100_000, needs="tmpfs")
def fill_disk(scene: Scene) -> None:
    """PostgreSQL refuses calls, and crashes when it cannot write its log."""
    with scene.cluster.lock:
        scene.facts["crash"] = now_ms()  # it may be any time until the end
        scene.cluster.disk.fill()
        try:
            scene.wait(2, 4)
        finally:
            scene.cluster.disk.free()
        scene.cluster.restart()
