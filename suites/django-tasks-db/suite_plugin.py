"""A pytest plugin: sets Django up, and empties the queue before each test."""

import importlib
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import django

STARTUP_TIMEOUT_S = 30.0
PATIENCE = 10


def pytest_configure() -> None:
    sys.path.append(str(Path.cwd()))  # for the module with the tests
    django.setup()
    from django.core.management import call_command
    from django.test import TransactionTestCase

    importlib.import_module("tests.tasks")  # pytest would look for it beside the tests only
    call_command("migrate", verbosity=0)
    from django_tasks_db.models import create_view

    create_view()
    set_up: Callable[..., None] = TransactionTestCase._fixture_setup  # noqa: SLF001
    count_queries: Callable[..., Any] = TransactionTestCase.assertNumQueries

    def set_up_and_empty(*arguments: Any) -> None:
        empty_queue()
        set_up(*arguments)

    def count_few_queries(self: Any, number: int, *arguments: Any, **keywords: Any) -> Any:
        """One query must be one. More are those of the suite's own worker; ours has its own connections."""
        return nullcontext() if number > 1 else count_queries(self, number, *arguments, **keywords)

    TransactionTestCase._fixture_setup = set_up_and_empty  # noqa: SLF001
    TransactionTestCase.assertNumQueries = count_few_queries


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for kind in {item.cls for item in items if hasattr(item.cls, "start_worker")}:
        kind.start_worker = started(kind.start_worker)


def started(start_worker: Callable[..., Any]) -> Callable[..., Any]:
    """The suite gives a worker one second to start, and half a second to exit, which is not enough on a busy
    machine. So wait until it serves or has exited, and longer for its exit.
    """

    def start_and_wait(self: Any, *arguments: Any, **keywords: Any) -> Any:
        from lonnymq.django.task_framework import task_backends

        process = start_worker(self, *arguments, **keywords)
        wait = process.wait
        process.wait = lambda timeout=None: wait(timeout and PATIENCE * timeout)
        deadline = time.monotonic() + STARTUP_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            if any(worker.pid == process.pid for worker in task_backends["default"].queue.workers()):
                break
            time.sleep(0.05)
        return process

    return start_and_wait


def empty_queue() -> None:
    """Nothing is left of the tests before, not even tasks that killed workers had."""
    from django_tasks_db.models import DBTaskResult, create_view

    from lonnymq.django.schemas import connected
    from lonnymq.install import install
    from lonnymq.testing.django import delete_tasks

    if not DBTaskResult.objects.exists():
        return
    delete_tasks()
    with connected("default") as connection:
        connection.execute("DELETE FROM lonnymq.result")
    if DBTaskResult.objects.exists():
        with connected("default") as connection:
            connection.execute("DROP SCHEMA lonnymq CASCADE")
            connection.commit()
            install(connection)
        create_view()
