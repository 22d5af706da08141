"""The processes of ./run chaos: signals that come early, and a proxy that several threads command."""

import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from chaos.cluster import Cluster, work_folder
from chaos.crew import drain_signal_blocked
from chaos.proxy import ProxyProcess

LATE_HANDLER = """
import signal
signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
"""


def test_a_signal_waits_for_its_handler() -> None:
    with drain_signal_blocked():
        process = subprocess.Popen([sys.executable, "-c", LATE_HANDLER], stdout=subprocess.PIPE, text=True)
    process.send_signal(signal.SIGUSR1)
    output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (0, "handled\n")
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_threads_command_the_proxy() -> None:
    proxy = ProxyProcess()
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: proxy.tell("delay", seconds=0), range(400)))
    finally:
        proxy.stop()


def test_ctrl_c_in_a_terminal_does_not_reach_the_proxy() -> None:
    proxy = ProxyProcess()
    try:
        assert os.getpgid(proxy.pid) != os.getpgrp()
    finally:
        proxy.stop()


@pytest.mark.debian("libfaketime")
def test_a_copy_does_not_have_the_clock_of_the_server() -> None:
    """With a clock that is set back, pg_ctl does not recognise the server that it has started."""
    folder = work_folder()
    try:
        cluster = Cluster(folder, 18, with_clock=True)
        try:
            assert cluster.clock is not None
            cluster.clock.set(-20)
            copy = cluster.new_server(is_started=False, is_copy=True)
            copy.start()
            with psycopg.connect(copy.dsn()) as conn:
                [(now,)] = conn.execute("SELECT clock_timestamp()").fetchall()
            assert datetime.now(UTC) - now < timedelta(seconds=10)
        finally:
            cluster.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
