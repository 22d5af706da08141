"""The tasks of the project."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from django.db import models, transaction

try:
    from django.tasks import task
except ImportError:
    from django_tasks import task

from lonnymq.django import complete
from tests.django.site.shop.models import Order


class NoStock(Exception):
    pass


@task
def add(a: int, b: int) -> int:
    return a + b


@task
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    orders: int = await Order.objects.acount()
    return a + b + orders


@task(channel="billing", priority=5, queue_name="reports")
def bill(order: int, tenant: str = "") -> int:
    with transaction.atomic():
        found = Order.objects.select_for_update().get(pk=order)
        found.billed += 1
        found.save()
    times: int = found.billed
    return times


@task
def bill_of(order: int, tenant: str) -> str:
    return f"{order} of {tenant}"


@task(takes_context=True)
def describe(context: Any, word: str) -> list[Any]:
    result = context.task_result
    return [word, result.id, result.status, context.attempt, len(result.worker_ids)]


@task
def fail(how: str = "value") -> None:
    if how == "exit":
        raise SystemExit(3)
    if how == "stock":
        raise NoStock("sold out\nTry again")
    raise ValueError("it failed")


@task(max_attempts=3, backoff=0, takes_context=True)
def fail_twice(context: Any) -> int:
    if context.attempt < 3:
        raise NoStock(f"attempt {context.attempt}")
    return len(context.task_result.errors)


@task(backend="second")
def fail_always() -> None:
    raise NoStock


@task(max_attempts=2, backoff=0, takes_context=True)
def bill_once(context: Any, order: int) -> None:
    """Its first transaction is rolled back, with the completion."""
    with transaction.atomic():
        Order.objects.filter(pk=order).update(billed=models.F("billed") + 1)
        complete("billed")
        if context.attempt == 1:
            raise NoStock


@task
def leave_transaction_open(order: int) -> None:
    transaction.atomic().__enter__()
    Order.objects.filter(pk=order).update(billed=100)


@task
def complete_without_transaction() -> None:
    complete()


@task
def unserializable() -> object:
    return object()


@task(timeout=0.1)
def slow() -> None:
    while True:
        time.sleep(0.01)


@task
def wait_for(begun: str, gate: str) -> int:
    """Says that it has begun, and waits for the gate to open."""
    with Path(begun).open("a", encoding="ascii") as file:
        file.write(f"{os.getpid()}\n")
    while not Path(gate).exists():
        time.sleep(0.01)
    orders: int = Order.objects.count()
    return orders


not_a_task = len
