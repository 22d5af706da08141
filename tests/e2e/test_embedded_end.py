"""The server stops when its program ends, and its data survives even if the program is killed."""

import ctypes
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from lonnymq.embedded import NotRunning, Server, StartFailed, postmaster
from tests.e2e.programs import EXIT_WHEN_RESUMED, FAST, STOP_WHEN_RESUMED, Program, eventually, is_alive


def test_stops_when_the_program_returns(data_dir: Path) -> None:
    with Program(EXIT_WHEN_RESUMED, data_dir) as program:
        pid = int(program.read_line())
        program.resume()
        assert program.wait() == 0
        assert not is_alive(pid)


def test_stops_when_the_program_raises(data_dir: Path) -> None:
    with Program("server.start(); say(server.pid); sys.stderr.close(); 1 / 0", data_dir) as program:
        pid = int(program.read_line())
        assert program.wait() == 1
        assert not is_alive(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stops_on_a_signal_that_still_ends_the_program(data_dir: Path, number: signal.Signals) -> None:
    with Program(EXIT_WHEN_RESUMED, data_dir) as program:
        pid = int(program.read_line())
        program.send(number)
        assert program.wait() == -number
        assert not is_alive(pid)


def test_stops_on_ctrl_c(data_dir: Path) -> None:
    source = """
try:
    server.start()
    say(server.pid)
    wait()
except KeyboardInterrupt:
    query("SELECT 1")
    sys.exit(130)
"""
    with Program(source, data_dir) as program:
        pid = int(program.read_line())
        program.press_ctrl_c()
        assert program.wait() == 130
        assert not is_alive(pid)


def test_a_program_with_a_signal_handler_keeps_its_server_until_it_ends(data_dir: Path) -> None:
    source = """
signalled = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: signalled.set())
server.start()
say(server.pid)
signalled.wait()
query("SELECT 1")
say("drained")
"""
    with Program(source, data_dir) as program:
        pid = int(program.read_line())
        program.send(signal.SIGTERM)
        assert program.read_line() == "drained"
        assert program.wait() == 0
        assert not is_alive(pid)


def test_a_signal_while_starting_leaves_nothing_behind(data_dir: Path) -> None:
    source = """
from lonnymq.embedded import postmaster
start = postmaster.start
def slow_start(*arguments):
    started = start(*arguments)
    say(started.pid)
    time.sleep(0.5)
    return started
postmaster.start = slow_start
server.start()
"""
    with Program(source, data_dir) as program:
        pid = int(program.read_line())
        program.send(signal.SIGTERM)
        assert program.wait() == -signal.SIGTERM
        assert not is_alive(pid)


def test_restores_the_signal_handlers_when_it_stops(data_dir: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    with Server(data_dir, settings=FAST):
        assert signal.getsignal(signal.SIGINT) is before[2]
    after = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)]
    assert after == before


def test_starts_outside_of_the_main_thread(data_dir: Path) -> None:
    source = """
thread = threading.Thread(target=server.start)
thread.start()
thread.join()
say(server.pid)
wait()
"""
    with Program(source, data_dir) as program:
        pid = int(program.read_line())
        program.resume()
        assert program.wait() == 0
        assert not is_alive(pid)


def test_a_forked_child_that_exits_does_not_stop_the_server(data_dir: Path) -> None:
    source = """
server.start()
if os.fork() == 0:
    sys.exit()
os.wait()
query("SELECT 1")
say(server.pid)
"""
    with Program(source, data_dir) as program:
        pid = int(program.read_line())
        assert program.wait() == 0
        assert not is_alive(pid)


def kept(server: Server) -> list[tuple[object, ...]]:
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        return connection.execute("SELECT answer FROM kept").fetchall()


KEEP = "server.start(); query('CREATE TABLE kept AS SELECT 42 AS answer'); say(server.pid); wait()"


def test_after_kill_9_of_the_program_the_next_one_joins_its_server(data_dir: Path) -> None:
    with Program(KEEP, data_dir) as program:
        pid = int(program.read_line())
        program.send(signal.SIGKILL)
        program.wait()
    assert is_alive(pid)
    with Server(data_dir, settings=FAST) as server:
        assert server.pid == pid
        assert kept(server) == [(42,)]
    assert not is_alive(pid)


def test_after_kill_9_of_program_and_server_the_next_one_recovers(data_dir: Path) -> None:
    with Program(KEEP, data_dir) as program:
        pid = int(program.read_line())
        program.send(signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)
        program.wait()
    assert eventually(lambda: not is_alive(pid))
    with Server(data_dir, settings=FAST) as server:
        assert server.pid != pid
        assert kept(server) == [(42,)]


def test_after_a_crash_it_waits_for_the_last_process_of_the_old_server(data_dir: Path) -> None:
    """A busy backend outlives its postmaster for a while; a second server must wait until it is gone."""
    first = Server(data_dir, settings=FAST)
    first.start()
    connection = psycopg.connect(first.dsn(), autocommit=True)
    connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    backend = connection.info.backend_pid
    os.kill(backend, signal.SIGSTOP)
    first.kill()
    with Program(STOP_WHEN_RESUMED, data_dir) as second:
        time.sleep(1)
        with pytest.raises(NotRunning):
            first.dsn()
        os.kill(backend, signal.SIGCONT)
        assert int(second.read_line()) == first.pid
        assert not is_alive(backend)
        assert kept(first) == [(42,)]
        second.resume()
        second.wait()
    connection.close()
    first.stop()


def test_after_a_crash_it_waits_until_the_memory_is_free(data_dir: Path) -> None:
    """The kernel may free it after the process can no longer be found."""
    libc = ctypes.CDLL(None)
    libc.shmat.restype = ctypes.c_void_p
    first = Server(data_dir, settings=FAST)
    first.start()
    pid_file = data_dir / "postgres" / "data" / "postmaster.pid"
    shared_memory_id = int(pid_file.read_text(encoding="utf-8").splitlines()[6].split()[1])
    attached = ctypes.c_void_p(libc.shmat(shared_memory_id, None, 0))
    log = data_dir / "postgres" / "log"
    first.kill()

    def free_when_refused() -> None:
        eventually(lambda: "pre-existing shared memory block" in log.read_text(encoding="utf-8"))
        libc.shmdt(attached)

    with ThreadPoolExecutor(1) as pool:
        freed = pool.submit(free_when_refused)
        with Server(data_dir, settings=FAST) as second:
            assert is_alive(second.pid)
        freed.result()
    first.stop()


def test_after_a_crash_it_names_a_process_that_stays_and_leaves_it_alone(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postmaster, "ORPHAN_TIMEOUT_S", 0.5)
    with Server(data_dir, settings=FAST) as first:
        connection = psycopg.connect(first.dsn(), autocommit=True)
        backend = connection.info.backend_pid
        os.kill(backend, signal.SIGSTOP)
        first.kill()
        with pytest.raises(StartFailed, match=rf"still use .*: {backend} "):
            Server(data_dir, settings=FAST).start()
        assert is_alive(backend)
        os.kill(backend, signal.SIGCONT)
        assert eventually(lambda: not is_alive(backend))
    connection.close()


def test_another_process_with_the_old_pid_is_not_taken_for_the_server(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as server:
        pid_file = data_dir / "postgres" / "data" / "postmaster.pid"
        lines = pid_file.read_text(encoding="utf-8").splitlines()
        pid = server.pid
    assert eventually(lambda: not is_alive(pid))
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]), encoding="utf-8")
    with Server(data_dir, settings=FAST) as server:
        assert server.pid != os.getpid()
