"""Completes the running task in the transaction of its own work."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from django.db import connections
from django.db.transaction import TransactionManagementError

if TYPE_CHECKING:
    from lonnymq.django.run_task import Attempt

running: ContextVar[Attempt | None] = ContextVar("lonnymq running task", default=None)
"""The attempt whose function runs in this context."""


def complete(return_value: Any = None) -> None:
    """Complete the task that calls this in the `transaction.atomic()` that is open, together with what that
    writes: the work and the end of the task are committed, or neither. Call it last, in a task that is a
    plain function. What the function returns is not used then.

    Raises LeaseLost if the worker has lost the task to another one: let the transaction roll back. If it does
    not commit, the task runs again.

    ```python
    with transaction.atomic():
        Invoice.objects.filter(pk=invoice_id).update(paid=True)
        complete()
    ```
    """
    from lonnymq.worker.job import Job

    job, attempt = Job.current(), running.get()
    if attempt is None:
        raise RuntimeError("complete() was not called by a task of Django")
    connection = connections[attempt.database]
    if not connection.in_atomic_block:
        raise TransactionManagementError(
            f"complete() needs a transaction of the database {attempt.database!r}: call it in "
            "`with transaction.atomic():`"
        )
    job.complete(conn=connection, result=attempt.completed_with(return_value))
