"""Client processes are killed, or stopped for longer than their lease."""

from chaos.crew import freeze
from chaos.faults.fault import Scene, fault

CONSUMERS = ("consumer", "task_worker", "spark_stream")


@fault("worker-kill", one_per=5_000, track="processes")
def kill_worker(scene: Scene) -> None:
    """SIGKILL a consumer or a worker."""
    member = scene.crew.pick(*CONSUMERS)
    if member is not None:
        scene.facts["process"] = member.settings.name
        scene.crew.kill(member)


@fault("producer-kill", one_per=40_000, track="processes")
def kill_producer(scene: Scene) -> None:
    """SIGKILL a producer, also in the middle of a transaction."""
    member = scene.crew.pick("producer", "spark_sink")
    if member is not None:
        scene.facts["process"] = member.settings.name
        scene.crew.kill(member)


@fault("worker-stop", one_per=20_000, track="processes")
def stop_worker(scene: Scene) -> None:
    """SIGSTOP for longer than the lease, then SIGCONT: it goes on with messages that others have by then."""
    member = scene.crew.pick("consumer", "task_worker")
    if member is not None:
        scene.facts["process"] = member.settings.name
        freeze(member.process.pid, scene.world.lease_ms / 1000 + scene.random.uniform(0.3, 1.5))
