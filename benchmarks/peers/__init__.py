"""The queues that the engine benchmark compares. Each is a set of pgbench scripts that call its SQL."""

from benchmarks.peers.lonnymq import LonnyMQ
from benchmarks.peers.peer import Peer
from benchmarks.peers.pgmq import Pgmq
from benchmarks.peers.prototype import Prototype

__all__ = ["LonnyMQ", "Peer", "Pgmq", "Prototype"]
