"""The task queues that the worker benchmark compares. Their workers run in separate processes.

They are loaded by name, so that a worker process imports only its own library.
"""

from importlib import import_module

from benchmarks.task_queues.task_queue import TaskQueue

TASK_QUEUES = {
    "lonnymq": "lonnymq:LonnyMQ",
    "lonnymq, durable dequeue": "lonnymq:DurableLonnyMQ",
    "lonnymq, kept results": "lonnymq:KeepingLonnyMQ",
    "lonnymq, limited": "lonnymq:LimitedLonnyMQ",
    "pgmq": "pgmq:Pgmq",
    "pgmq, grouped": "pgmq:GroupedPgmq",
    "pgqueuer": "pgqueuer:Pgqueuer",
    "pgqueuer, balanced": "pgqueuer:PgqueuerBalanced",
    "pgqueuer, limited": "pgqueuer:PgqueuerLimited",
    "procrastinate": "procrastinate:Procrastinate",
    "procrastinate, limited": "procrastinate:LimitedProcrastinate",
    "awa": "awa:Awa",
    "oban": "oban:Oban",
    "absurd": "absurd:Absurd",
    "chancy": "chancy:Chancy",
    "celery": "celery_redis:CeleryRedis",
    "rq": "rq:Rq",
}


def load_task_queue(name: str) -> TaskQueue:
    """Their modules import their libraries only in functions, unless ./run bench worker compares them too."""
    module, _, class_name = TASK_QUEUES[name].partition(":")
    queue = getattr(import_module(f"benchmarks.task_queues.{module}"), class_name)()
    assert isinstance(queue, TaskQueue)
    return queue
