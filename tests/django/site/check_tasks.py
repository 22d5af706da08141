"""Tasks from enqueue to result, with the worker in this process."""

import asyncio
import json
import tempfile
import threading
import time
import uuid
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import AsyncClient, Client, TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from lonnymq.django import complete, message_id_of
from lonnymq.django.error_text import class_path
from lonnymq.django.result_id import result_id
from lonnymq.django.schemas import install_in, schemas_in, upgrade_after_migrate
from lonnymq.django.task_framework import (
    InvalidTask,
    TaskResultDoesNotExist,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from lonnymq.errors import MessageCancelled, SchemaTooNew
from lonnymq.testing.django import delete_tasks, run_tasks
from lonnymq.worker.job import NoJob
from tests.django.site.shop import tasks
from tests.django.site.shop.models import Order

READY, RUNNING, FAILED, SUCCESSFUL = "READY", "RUNNING", "FAILED", "SUCCESSFUL"


def backend(alias: str = "default") -> Any:
    return task_backends[alias]


def waiting(alias: str = "default") -> list[Any]:
    found: list[Any] = backend(alias).queue.messages()
    return found


class Committed(TransactionTestCase):
    def setUp(self) -> None:
        delete_tasks()
        delete_tasks("second")

    def test_a_task_is_sent_with_the_commit_and_gone_with_the_rollback(self) -> None:
        with transaction.atomic():
            kept = tasks.add.enqueue(1, 2)
            self.assertEqual(self.seen_by_others(), 0)
            try:
                with transaction.atomic():
                    lost = tasks.add.enqueue(3, 4)
                    _ = 1 / 0
            except ZeroDivisionError:
                pass
            self.assertEqual(backend().get_result(kept.id), kept)
        self.assertEqual(self.seen_by_others(), 1)
        with self.assertRaises(TaskResultDoesNotExist):
            lost.refresh()
        with self.assertRaises(ZeroDivisionError), transaction.atomic():
            tasks.add.enqueue(5, 6)
            _ = 1 / 0
        with self.assertNumQueries(1):  # without a transaction, it commits at once
            tasks.add.enqueue(7, 8)
        self.assertEqual(self.seen_by_others(), 2)

    def seen_by_others(self) -> int:
        other = connections.create_connection("default")
        try:
            with other.cursor() as cursor:
                cursor.execute("SELECT COUNT(*) FROM lonnymq.messages")
                (found,) = cursor.fetchone()
                return int(found)
        finally:
            other.close()

    def test_a_request_is_a_transaction_with_atomic_requests(self) -> None:
        client = Client(raise_request_exception=False)
        with mock.patch.dict(connection.settings_dict, ATOMIC_REQUESTS=True):
            self.assertEqual(client.get("/order?customer=acme&fail").status_code, 500)
            self.assertEqual((Order.objects.count(), len(waiting())), (0, 0))
            answer = client.get("/order?customer=acme").json()
        (message,) = waiting()
        self.assertEqual(message.id, message_id_of(answer["result"]))
        self.assertEqual((message.channel, message.lane, message.priority), ("billing", "reports", 5))
        run_tasks()
        self.assertEqual(Order.objects.get().billed, 1)
        self.assertEqual(tasks.bill.get_result(answer["result"]).return_value, 1)

    def test_asynchronous_code(self) -> None:
        async def use() -> None:
            result = await tasks.add_async.aenqueue(1, b=2)
            self.assertEqual(await tasks.add_async.aget_result(result.id), result)
            answer = await AsyncClient().get("/order-async")
            found = await tasks.add.aget_result(json.loads(answer.content)["result"])
            self.assertEqual(found.status, READY)
            await asyncio.to_thread(run_tasks)
            for each, value in ((result, 3), (found, 3)):
                await each.arefresh()
                self.assertEqual((each.status, each.return_value), (SUCCESSFUL, value))

        asyncio.run(use())

    def test_results_by_status(self) -> None:
        result = tasks.describe.enqueue("x")
        self.assertEqual(uuid.UUID(result.id).version, 4)
        self.assertEqual((result.status, result.attempts, result.started_at), (READY, 0, None))
        failed, exited, broken = (
            tasks.fail.enqueue("stock"),
            tasks.fail.enqueue("exit"),
            tasks.unserializable.enqueue(),
        )
        slow, twice, always = tasks.slow.enqueue(), tasks.fail_twice.enqueue(), tasks.fail_always.enqueue()
        drained = run_tasks(raise_errors=False)
        self.assertEqual(drained.completed, 2)
        run_tasks("second", raise_errors=False)
        for each in (result, failed, exited, broken, slow, twice, always):
            each.refresh()
            self.assertLessEqual(each.enqueued_at, each.started_at)
            self.assertLessEqual(each.started_at, each.finished_at)
        self.assertEqual(result.return_value, ["x", result.id, RUNNING, 1, 1])
        self.assertEqual((result.worker_ids, result.errors), (["test"], []))
        self.assertEqual((twice.status, twice.attempts, twice.return_value), (SUCCESSFUL, 3, 1))
        kinds = [SystemExit, TypeError, TimeoutError, tasks.NoStock, tasks.NoStock]
        for each, kind in zip([exited, broken, slow, always, failed], kinds, strict=True):
            self.assertEqual((each.status, each.errors[-1].exception_class), (FAILED, kind))
        self.assertTrue(failed.errors[0].traceback.endswith("NoStock: sold out\nTry again\n"))
        self.assertNotIn("lonnymq", failed.errors[0].traceback)
        self.assertEqual((failed.attempts, always.attempts), (1, 3))
        with self.assertRaisesMessage(ValueError, "Task failed"):
            _ = failed.return_value
        with self.assertRaises(TaskResultDoesNotExist):
            backend().get_result(str(uuid.uuid4()))
        guessed = f"{'0' * 8}{result.id[8:]}"
        self.assertEqual(message_id_of(guessed), message_id_of(result.id))
        for wrong in ("123", guessed, "0" * 32, None):
            with self.assertRaises(TaskResultDoesNotExist):
                backend().get_result(wrong)

    def test_a_task_that_completes_itself(self) -> None:
        order = Order.objects.create(customer="acme")
        billed, wrong = tasks.bill_once.enqueue(order.pk), tasks.complete_without_transaction.enqueue()
        run_tasks(raise_errors=False)
        order.refresh_from_db()
        billed.refresh()
        self.assertEqual((order.billed, billed.attempts, billed.return_value), (1, 2, "billed"))
        wrong.refresh()
        self.assertIn("call it in `with transaction.atomic():`", wrong.errors[0].traceback)
        with self.assertRaises(NoJob):
            complete()

    def test_a_task_that_leaves_a_transaction_open(self) -> None:
        order = Order.objects.create(customer="acme")
        left = tasks.leave_transaction_open.enqueue(order.pk)
        next_one = tasks.bill.using(channel="default", queue_name="default", priority=-1).enqueue(order.pk)
        run_tasks(raise_errors=False)
        order.refresh_from_db()
        left.refresh()
        next_one.refresh()
        self.assertEqual((order.billed, left.status, next_one.return_value), (1, FAILED, 1))
        self.assertIn("left a transaction of the database 'default' open", left.errors[0].traceback)

    def test_cancel_and_retry(self) -> None:
        result, failed = tasks.add.enqueue(1, 2), tasks.fail.enqueue()
        self.assertTrue(backend().cancel(result.id))
        result.refresh()
        self.assertEqual((result.status, result.errors[0].exception_class), (FAILED, MessageCancelled))
        self.assertFalse(backend().cancel(result.id))
        self.assertFalse(backend().retry(failed.id))
        run_tasks(raise_errors=False)
        self.assertFalse(backend().cancel(failed.id))
        self.assertTrue(backend().retry(failed.id))
        failed.refresh()
        self.assertEqual((failed.status, len(failed.errors)), (READY, 2))

    def test_cancel_a_task_that_runs(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            result = tasks.wait_for.enqueue(f"{folder}/begun", f"{folder}/gate")
            finished: list[str] = []

            def note(sender: Any, task_result: Any, **_: Any) -> None:
                finished.append(str(task_result.status))

            task_finished.connect(note)
            worker = threading.Thread(target=run_tasks, kwargs={"raise_errors": False})
            worker.start()
            try:
                while not Path(folder, "begun").exists():
                    time.sleep(0.01)
                result.refresh()
                self.assertEqual(result.status, RUNNING)
                self.assertTrue(backend().cancel(result.id))
                worker.join(30)
            finally:
                task_finished.disconnect(note)
        self.assertFalse(worker.is_alive())
        result.refresh()
        self.assertEqual((result.status, result.errors[0].exception_class), (FAILED, MessageCancelled))
        self.assertEqual(finished, [FAILED])

    def test_run_after_priority_queue_name_and_channel(self) -> None:
        soon = timezone.now() + timedelta(hours=1)
        later = tasks.add.using(run_after=soon, priority=100).enqueue(1, 0)
        low, high = tasks.add.using(priority=-100).enqueue(2, 0), tasks.add.using(priority=7).enqueue(3, 0)
        report = tasks.add.using(queue_name="reports", channel="acme").enqueue(4, 0)
        by_setting = tasks.bill_of.enqueue(5, tenant="bluebird")
        self.assertEqual(
            backend().get_result(later.id).task.run_after,
            soon.replace(microsecond=soon.microsecond // 1000 * 1000),
        )
        self.assertEqual(backend().get_result(report.id), report)
        found = {message.id: message for message in waiting()}

        def of(result: Any) -> Any:
            return found[message_id_of(result.id)]

        self.assertEqual(of(later).status, "scheduled")
        self.assertEqual((of(report).lane, of(report).channel), ("reports", "acme"))
        self.assertEqual((of(by_setting).channel, of(low).channel), ("bluebird", "default"))
        order: list[str] = []

        def note(sender: Any, task_result: Any, **_: Any) -> None:
            order.append(task_result.id)

        task_started.connect(note)
        try:
            run_tasks()
            self.assertLess(order.index(high.id), order.index(low.id))
            self.assertNotIn(later.id, order)
            run_tasks(with_scheduled=True)
        finally:
            task_started.disconnect(note)
        self.assertEqual(order[-1], later.id)

    def test_signals(self) -> None:
        seen: list[tuple[str, Any, str]] = []

        def noting(name: str) -> Any:
            def note(sender: Any, task_result: Any, **_: Any) -> None:
                seen.append((name, task_result.task.name, str(task_result.status)))
                self.assertIs(sender, type(backend()))
                if name != "enqueued":
                    raise ValueError("a receiver fails")

            return note

        receivers = [
            (signal, noting(name))
            for signal, name in (
                (task_enqueued, "enqueued"),
                (task_started, "started"),
                (task_finished, "finished"),
            )
        ]
        for signal, receiver in receivers:
            signal.connect(receiver, weak=False)
        try:
            tasks.add.enqueue(1, 2)
            tasks.add_async.enqueue(1, 2)
            tasks.fail.enqueue()
            tasks.fail_twice.enqueue()
            with self.assertLogs("django.dispatch", "ERROR"):
                run_tasks(raise_errors=False)
        finally:
            for signal, receiver in receivers:
                signal.disconnect(receiver)
        for name in ("add", "add_async"):
            self.assertEqual(
                [(how, status) for how, task, status in seen if task == name],
                [("enqueued", READY), ("started", RUNNING), ("finished", SUCCESSFUL)],
            )
        self.assertEqual([how for how, task, _ in seen if task == "fail_twice"].count("started"), 3)
        self.assertEqual(
            [status for how, task, status in seen if (how, task) == ("finished", "fail")], [FAILED]
        )
        self.assertEqual(
            [each for each in seen if each[:2] == ("finished", "fail_twice")],
            [("finished", "fail_twice", SUCCESSFUL)],
        )

    def test_threads_have_connections_of_their_own(self) -> None:
        results: list[Any] = []

        def enqueue() -> None:
            with transaction.atomic():
                results.append(tasks.add.enqueue(1, 2))
            connection.close()

        threads = [threading.Thread(target=enqueue) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({result.id for result in results}), 4)
        call_command("lonnymq_worker", "--until-empty", verbosity=0)
        for result in results:
            result.refresh()
            self.assertEqual(result.status, SUCCESSFUL)

    def test_a_task_that_the_code_does_not_have(self) -> None:
        result = tasks.add.enqueue(1, 2)
        with mock.patch.object(tasks, "add", tasks.not_a_task):
            self.assertEqual(backend().get_result(result.id).task.module_path, result.task.module_path)
            call_command("lonnymq_worker", "--until-empty", "--unknown-task-timeout", "0", verbosity=0)
            found = backend().get_result(result.id)
        self.assertEqual(
            (found.status, found.errors[0].exception_class_path), (FAILED, "lonnymq.errors.MessageDead")
        )
        self.assertIn("no worker knew the task", found.errors[0].traceback)
        self.assertTrue(backend().retry(result.id))
        run_tasks()
        result.refresh()
        self.assertEqual(result.return_value, 3)

    def test_messages_that_others_wrote(self) -> None:
        queue = backend().queue
        good: dict[str, Any] = {"key": "0" * 15, "backend": "default", "enqueued_at": 1}
        path = "tests.django.site.shop.tasks.add"
        bad: list[Any] = [{**good, "key": 5}, {**good, "key": "x"}, {**good, "enqueued_at": None}, [], {}]
        for wrong in bad:
            queue.enqueue({"args": [1, 2], "kwargs": {}}, headers={"task": path, "django": wrong})
        removed = {**good, "backend": "removed"}
        lost = queue.enqueue({"args": [1, 2]}, headers={"task": path, "django": good})
        kept = queue.enqueue(
            {"args": [1, 2], "kwargs": {}}, headers={"task": path, "django": removed}, keep_result=60
        )
        call_command("lonnymq_worker", "--until-empty", "--unknown-task-timeout", "0", verbosity=0)
        self.assertEqual(backend().get_result(result_id(kept.id, good["key"])).return_value, 3)
        self.assertEqual(len(queue.dead.list()), 6)
        self.assertIn("is not a call of a task", queue.get(lost.id).error)

    def test_two_aliases_have_two_schemas(self) -> None:
        result = tasks.add.using(backend="second", queue_name="anything").enqueue(1, 2)
        self.assertEqual((len(waiting()), len(waiting("second"))), (0, 1))
        self.assertEqual(result.backend, "second")
        call_command("lonnymq_worker", "--backend", "second", "--until-empty", verbosity=0)
        result.refresh()
        self.assertEqual((result.return_value, result.backend), (3, "second"))
        for alias, said in (("immediate", "is not a LonnyMQBackend"), ("none", "doesn't exist")):
            with self.assertRaisesMessage(CommandError, said):
                call_command("lonnymq_worker", "--backend", alias, verbosity=0)

    def test_the_worker_serves_the_queue_names_of_its_backend(self) -> None:
        served, other = tasks.add.enqueue(1, 2), tasks.add.using(queue_name="reports").enqueue(1, 2)
        call_command(
            "lonnymq_worker", "--until-empty", "--queue-name", "*", "--exclude-queues", "reports", verbosity=0
        )
        served.refresh()
        other.refresh()
        self.assertEqual((served.status, other.status), (SUCCESSFUL, READY))
        call_command("lonnymq_worker", "--until-empty", verbosity=0)
        other.refresh()
        self.assertEqual(other.status, SUCCESSFUL)
        with self.assertRaisesMessage(CommandError, "'reportz' is not one of the QUEUES"):
            call_command("lonnymq_worker", "--until-empty", "--queue-name", "reportz", verbosity=0)


class InOneTransaction(TestCase):
    """What needs no commit."""

    def test_arguments_that_are_not_json(self) -> None:
        for wrong in (object(), {1, 2}, timezone.now(), b"\xff"):
            with self.assertRaises((TypeError, ValueError)), transaction.atomic():
                tasks.add.enqueue(wrong, 1)
        with self.assertRaises(Exception) as caught, transaction.atomic():
            tasks.add.enqueue(float("nan"), 1)
        self.assertEqual(type(caught.exception).__name__, "NotEncodable")
        self.assertEqual(tasks.add.enqueue((1, 2), b="\0").args, [[1, 2]])

    def test_tasks_that_are_not_valid(self) -> None:
        for wrong in (
            {"queue_name": "unknown"},
            {"priority": 101},
            {"run_after": timezone.now().replace(tzinfo=None)},
        ):
            with self.assertRaises(InvalidTask):
                tasks.add.using(**wrong)
        with override_settings(USE_TZ=False):
            result = tasks.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1, 2)
            self.assertIsNone(backend().get_result(result.id).enqueued_at.tzinfo)
        for option, value in {"max_attempts": 0, "cost": -1, "timeout": -1, "keep_result": "x"}.items():
            with self.assertRaises(InvalidTask, msg=option):
                type(tasks.add)(func=tasks.add.func, **{option: value})

    @override_settings(TASKS={"default": {"BACKEND": "lonnymq.django.ImmediateBackend", "QUEUES": []}})
    def test_the_immediate_backend_takes_the_same_tasks(self) -> None:
        self.assertEqual(tasks.add.using(channel="acme").enqueue(1, 2).return_value, 3)

    def test_system_checks(self) -> None:
        self.assertEqual(run_checks(databases=["default"]), [])
        for option, wrong, said in (
            ("database", "elsewhere", "is sqlite, and LonnyMQ needs PostgreSQL"),
            ("database", "none", "there is no database 'none'"),
            ("schema", "pg_x", "schema"),
            ("channel", "shop.none", "shop"),
            ("max_attempts", 0, "whole number of 1 or more"),
            ("timeout", 0, "positive"),
            ("colour", "red", "there is no option 'colour'"),
        ):
            configured = {"BACKEND": "lonnymq.django.LonnyMQBackend", "OPTIONS": {option: wrong}}
            with override_settings(TASKS={"default": configured}):
                (found,) = [each for each in run_checks() if each.id == "lonnymq.E002"]
                self.assertIn(said, found.msg)
                type(tasks.add)(func=tasks.add.func)  # modules with tasks can be imported
                with self.assertRaisesMessage(ImproperlyConfigured, said):
                    tasks.add.enqueue(1, 2)
        configured = {
            "BACKEND": "lonnymq.django.LonnyMQBackend",
            "QUEUES": ["x" * 300],
            "OPTIONS": {"schema": "missing"},
        }
        with override_settings(TASKS={"default": configured}):
            found = {each.id: each for each in run_checks(databases=["default"])}
            self.assertEqual(set(found), {"lonnymq.E003", "lonnymq.W001"})
            self.assertIn("migrate", found["lonnymq.W001"].hint)
        with self.modify_settings(INSTALLED_APPS={"remove": "lonnymq.django"}):
            self.assertIn("lonnymq.E001", [each.id for each in backend().check()])

    def test_errors_of_stored_tracebacks(self) -> None:
        chained = (
            'Traceback (most recent call last):\n  File "x", line 1, in f\nKeyError: 1\n\n'
            "During handling of the above exception, another exception occurred:\n\n"
            'Traceback (most recent call last):\n  File "x", line 3, in f\n    raise A\n'
            "shop.A.B: no: not this\nwhy: because"
        )
        self.assertEqual(class_path(chained), "shop.A.B")
        self.assertEqual(class_path("Traceback (most recent call last):\n  File ...\nOwn"), "__main__.Own")
        self.assertEqual(class_path(""), "lonnymq.errors.MessageDead")


class Migrations(TransactionTestCase):
    databases = {"default", "elsewhere"}

    def test_migrate_installs_upgrades_and_uninstalls(self) -> None:
        self.assertEqual(schemas_in("default"), ["lonnymq", "lonnymq_second"])
        said = StringIO()
        call_command("makemigrations", "--check", "--dry-run", stdout=said)
        self.assertEqual(said.getvalue(), "No changes detected\n")
        call_command("migrate", "lonnymq", "zero", verbosity=0)
        self.assertEqual(self.releases(), {})
        call_command("migrate", "shop", verbosity=0)
        self.assertEqual(self.releases(), {})
        call_command("migrate", verbosity=0)
        now = self.releases()
        self.assertEqual(set(now), {"lonnymq", "lonnymq_second"})
        with connection.cursor() as cursor:
            cursor.execute("UPDATE lonnymq.installation SET release = '0.0.1'")
        call_command("migrate", verbosity=0)
        self.assertEqual(self.releases(), now)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE lonnymq.installation SET release = '99.0', contract = contract + 1")
        call_command("migrate", verbosity=0)  # after a deployment was rolled back
        with connection.cursor() as cursor:
            cursor.execute("UPDATE lonnymq.installation SET oldest_contract = contract")
        with self.assertRaises(SchemaTooNew):
            call_command("migrate", verbosity=0)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE lonnymq.installation SET contract = contract - 1, release = '0.0.1'")
        call_command("migrate", verbosity=0)
        self.assertEqual(self.releases(), now)
        with override_settings(MIGRATION_MODULES={"lonnymq": None}):
            upgrade_after_migrate(using="default")
        call_command("dumpdata", stdout=StringIO())
        call_command("dumpdata", "--all", stdout=StringIO())
        call_command("migrate", "--database", "elsewhere", verbosity=0)
        install_in("default")
        call_command("lonnymq_install", stdout=said)
        self.assertIn("is installed in schema lonnymq_second", said.getvalue())
        with self.assertRaisesMessage(CommandError, "no backend in TASKS uses the database 'elsewhere'"):
            call_command("lonnymq_install", "--database", "elsewhere")

    def releases(self) -> dict[str, str]:
        with connection.cursor() as cursor:
            found = {}
            for schema in schemas_in("default"):
                cursor.execute("SELECT to_regclass(%s)", [f"{schema}.installation"])
                if cursor.fetchone()[0] is not None:
                    cursor.execute(f"SELECT release FROM {schema}.installation")
                    found[schema] = cursor.fetchone()[0]
            return found
