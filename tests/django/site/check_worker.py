"""Worker processes, one of which is killed."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from django.db import connection
from django.test import TransactionTestCase
from psycopg.conninfo import make_conninfo

from lonnymq.django.database import address_of
from lonnymq.testing.django import delete_tasks
from tests.django.site.check_tasks import READY, RUNNING, SUCCESSFUL
from tests.django.site.shop import tasks

TIMEOUT_S = 30


def until(is_true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_true():
        assert time.monotonic() < deadline, f"timed out waiting for {what}"
        time.sleep(0.02)


class Workers(TransactionTestCase):
    def setUp(self) -> None:
        delete_tasks()
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.log = self.folder / "log"

    def start(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        address = make_conninfo(address_of("default"), dbname=connection.settings_dict["NAME"])
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "django", "lonnymq_worker", "--name", name, *arguments],
                env=os.environ | {"LONNYMQ_DJANGO_DSN": address, "LOG_LEVEL": "INFO"},
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.kill)
        return process

    def test_a_killed_worker_loses_nothing(self) -> None:
        begun, gate = self.folder / "begun", self.folder / "gate"
        result, other = tasks.wait_for.enqueue(str(begun), str(gate)), tasks.add.enqueue(1, 2)
        killed = self.start("first", "--concurrency", "1")
        until(begun.exists, f"the task to begin: {self.log.read_text()}")
        result.refresh()
        other.refresh()
        self.assertEqual((result.status, result.worker_ids, other.status), (RUNNING, ["first"], READY))
        killed.send_signal(signal.SIGKILL)
        killed.wait(TIMEOUT_S)

        second = self.start("second", "--processes", "2", "--concurrency", "1")
        until(lambda: begun.read_text().count("\n") == 2, "another worker to begin the task again")
        until(lambda: other.refresh() or other.is_finished, "the other process to run the other task")
        second.send_signal(signal.SIGTERM)  # it drains
        until(lambda: "SIGTERM" in self.log.read_text(), "the signal to be passed on")
        gate.touch()
        self.assertEqual(second.wait(TIMEOUT_S), 0, self.log.read_text())
        result.refresh()
        self.assertEqual((result.status, result.attempts, result.return_value), (SUCCESSFUL, 2, 0))
        self.assertIn("unknown", result.worker_ids[0])
        self.assertTrue(result.worker_ids[1].startswith("second-"))
        self.assertEqual(other.return_value, 3)
