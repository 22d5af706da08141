"""The server is killed, shut down at once, or loses single sessions."""

import os
import signal

from chaos.cluster import OPERATOR
from chaos.faults.fault import Scene, fault
from chaos.journal import now_ms

BACKENDS = (
    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    f" AND application_name <> '{OPERATOR}' ORDER BY random() LIMIT 1"
)


@fault("server-kill", one_per=20_000)
def kill_server(scene: Scene) -> None:
    """SIGKILL the postmaster, as in a crash; its other processes exit."""
    with scene.cluster.lock:
        scene.facts["crash"] = now_ms()
        scene.cluster.server.kill()
        scene.cluster.restart()


@fault("immediate-shutdown", one_per=100_000)
def stop_at_once(scene: Scene) -> None:
    """Stop the server without a checkpoint; it recovers when it starts."""
    with scene.cluster.lock:
        scene.facts["crash"] = now_ms()
        scene.cluster.server.stop("immediate")
        scene.cluster.restart()


@fault("backend-kill", one_per=200_000)
def kill_backend(scene: Scene) -> None:
    """SIGKILL one session's process: PostgreSQL restarts all of them, and recovers."""
    with scene.cluster.lock, scene.cluster.connect() as conn:
        row = conn.execute(BACKENDS).fetchone()
        if row is None:
            return
        scene.facts["crash"] = now_ms()
        os.kill(row[0], signal.SIGKILL)
    scene.cluster.until_it_answers()


@fault("terminated-sessions", one_per=50_000)
def terminate(scene: Scene) -> None:
    """End sessions at random, also in the middle of calls."""
    with scene.cluster.connect() as conn:
        for _ in range(10):
            conn.execute(f"SELECT pg_terminate_backend(pid) FROM ({BACKENDS}) x")
            scene.wait(0.02, 0.2)


@fault("cancelled-calls", one_per=50_000)
def cancel(scene: Scene) -> None:
    """Cancel what sessions do, as a statement timeout does."""
    with scene.cluster.connect() as conn:
        for _ in range(30):
            conn.execute(f"SELECT pg_cancel_backend(pid) FROM ({BACKENDS}) x")
            scene.wait(0.01, 0.1)
