"""Connections are cut, frozen, delayed, and closed on one side only."""

from chaos.faults.fault import Scene, fault


@fault("cut", one_per=20_000, track="processes")
def cut(scene: Scene) -> None:
    """Close connections, most of them in the middle of a call."""
    share = scene.random.choice((0.3, 0.6, 1.0))
    scene.facts["share"] = share
    scene.cluster.proxy.tell("cut", share=share)


@fault("cuts", one_per=50_000, track="processes")
def many_cuts(scene: Scene) -> None:
    """Cut connections again and again, so that some calls are cut in the middle of their commit."""
    for _ in range(25):
        scene.cluster.proxy.tell("cut", share=0.3)
        scene.wait(0.02, 0.15)


@fault("frozen-network", one_per=100_000, track="processes")
def freeze_network(scene: Scene) -> None:
    """No byte passes for longer than a lease; then all go on."""
    scene.cluster.proxy.tell("freeze", on=True)
    try:
        scene.wait(scene.world.lease_ms / 1000 * 1.2)
    finally:
        scene.cluster.proxy.tell("freeze", on=False)


@fault("slow-network", one_per=100_000, track="processes")
def slow_network(scene: Scene) -> None:
    """Every packet takes 50 ms."""
    scene.cluster.proxy.tell("delay", seconds=0.05)
    try:
        scene.wait(2, 4)
    finally:
        scene.cluster.proxy.tell("delay", seconds=0.0)


@fault("refused", one_per=100_000, track="processes")
def refuse(scene: Scene) -> None:
    """Cut all connections, and accept none for a while."""
    scene.cluster.proxy.tell("refuse", on=True)
    try:
        scene.wait(1, 3)
    finally:
        scene.cluster.proxy.tell("refuse", on=False)


@fault("half-open", one_per=50_000, track="processes")
def half_open(scene: Scene) -> None:
    """One side of a connection is closed, and the other one does not learn of it for a while."""
    side = scene.random.choice(("client", "server"))
    seconds = scene.world.lease_ms / 1000 + 1
    scene.facts["side"] = side
    scene.cluster.proxy.tell("half_open", share=0.4, side=side, seconds=seconds)
    scene.wait(seconds)
