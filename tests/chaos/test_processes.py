"""The processes of ./run chaos: signals that come early, and a proxy that several threads command."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

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
