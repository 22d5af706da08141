"""What can go wrong. Each fault is a function of the scene, which returns when the fault is over."""

from chaos.faults import (
    clock,
    copies,
    failover,
    network,
    operators,
    processes,
    servers,
    storage,
    transactions,
)
from chaos.faults.fault import FAULTS, Fault, Scene

FAMILIES = (clock, copies, failover, network, operators, processes, servers, storage, transactions)
__all__ = ["FAMILIES", "FAULTS", "Fault", "Scene"]
