"""What can go wrong. Each fault is a function of the scene, which returns when the fault is over."""

from chaos.faults.fault import FAULTS, Fault, Scene
from chaos.faults import (  # isort: skip  they add themselves to FAULTS
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

__all__ = [
    "FAULTS",
    "Fault",
    "Scene",
    "clock",
    "copies",
    "failover",
    "network",
    "operators",
    "processes",
    "servers",
    "storage",
    "transactions",
]
