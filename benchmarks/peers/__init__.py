"""The queues that are measured side by side. Each is a set of pgbench scripts over its own SQL."""

from benchmarks.peers.ours import Ours
from benchmarks.peers.peer import Peer
from benchmarks.peers.pgmq import Pgmq
from benchmarks.peers.seeds import Seeds

__all__ = ["Ours", "Peer", "Pgmq", "Seeds"]
