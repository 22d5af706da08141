"""The task queues that are measured side by side, each with workers in processes of their own.

They are loaded by name: a worker's process has its own library in memory and not the others.
"""

from importlib import import_module

from benchmarks.task_queues.task_queue import TaskQueue

HOMES = {
    "lonnymq": "ours:Ours",
    "lonnymq, durable dequeue": "ours:OursDurable",
    "pgqueuer": "pgqueuer:Pgqueuer",
    "pgqueuer, balanced": "pgqueuer:PgqueuerBalanced",
    "procrastinate": "procrastinate:Procrastinate",
}


def named(name: str) -> TaskQueue:
    module, _, kind = HOMES[name].partition(":")
    made = getattr(import_module(f"benchmarks.task_queues.{module}"), kind)()
    assert isinstance(made, TaskQueue)
    return made
