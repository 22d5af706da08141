"""The server process of a cluster: finds, starts, stops and kills it."""

import contextlib
import os
import shlex
import shutil
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lonnymq.embedded import processes
from lonnymq.embedded.data_folder import Folder
from lonnymq.embedded.embedded_errors import StartFailed, StopFailed

HOST = "127.0.0.1"
START_ATTEMPTS = 5
TRANSIENT = (
    "could not bind",  # another program took the free port first
    "pre-existing shared memory block",  # the kernel is still freeing the memory of a killed process
)
START_TIMEOUT_S = 60
RETRY_S = 0.2
STOP_TIMEOUT_S = 60
ORPHAN_TIMEOUT_S = 30.0
LOG_LINES_MAX = 20


@dataclass(frozen=True)
class Postmaster:
    """What a running server wrote to postmaster.pid."""

    pid: int
    port: int
    socket_dir: Path


def find(folder: Folder) -> Postmaster | None:
    """The running server of this cluster, if there is one."""
    found = _read_pid_file(folder)
    return found if found is not None and processes.is_server(found.pid, folder.cluster) else None


def start(folder: Folder, bin_dir: Path, settings: Mapping[str, str]) -> Postmaster:
    """Start a server. The caller has the folder's lock, and no server is running."""
    _clean_up_after_crash(folder)
    for attempt in range(1, START_ATTEMPTS + 1):
        log_start = folder.log.stat().st_size if folder.log.exists() else 0
        arguments = _server_arguments(_free_port(), folder.socket_dir(), settings)
        outcome = folder.account.run(
            [bin_dir / "pg_ctl", "start", "--silent", "--wait", f"--timeout={START_TIMEOUT_S}",
             f"--pgdata={folder.cluster}", f"--log={folder.log}", f"--options={arguments}"],
            timeout=START_TIMEOUT_S + 10,
        )  # fmt: skip
        found = find(folder)
        if outcome.returncode == 0 and found is not None:
            return found
        log = _log_since(folder, log_start)
        if attempt == START_ATTEMPTS or not any(text in log for text in TRANSIENT):
            break
        time.sleep(RETRY_S * attempt)
    raise StartFailed(f"PostgreSQL did not start on {folder.path}:\n{outcome.stdout}{log}")


def stop(folder: Folder, bin_dir: Path, mode: str) -> None:
    """Stop the server, if it is running, and wait until it has exited."""
    running = find(folder)
    if running is None:
        return
    outcome = folder.account.run(
        [bin_dir / "pg_ctl", "stop", "--silent", "--wait", f"--timeout={STOP_TIMEOUT_S}",
         f"--mode={mode}", f"--pgdata={folder.cluster}"],
        timeout=STOP_TIMEOUT_S + 10,
    )  # fmt: skip
    if outcome.returncode != 0 and find(folder) is not None:
        raise StopFailed(f"PostgreSQL did not stop on {folder.path}:\n{outcome.stdout}")
    _remove_socket_dir(folder, running)


def kill(folder: Folder) -> None:
    """Kill the postmaster, if it is running, with SIGKILL, and wait until it has exited."""
    running = find(folder)
    if running is None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.pid, signal.SIGKILL)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while find(folder) is not None:
        if time.monotonic() > deadline:
            raise StopFailed(f"process {running.pid} on {folder.path} did not exit after SIGKILL")
        time.sleep(0.01)


def kill_and_clean_up(folder: Folder) -> None:
    """Kill the server, if it is running, whose data is no longer needed."""
    kill(folder)
    _clean_up_after_crash(folder)


def _server_arguments(port: int, socket_dir: Path, settings: Mapping[str, str]) -> str:
    options = {
        "listen_addresses": HOST,
        "port": str(port),
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        **settings,
    }
    return shlex.join(part for name, value in options.items() for part in ("-c", f"{name}={value}"))


def _read_pid_file(folder: Folder) -> Postmaster | None:
    try:
        lines = (folder.cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return Postmaster(pid=int(lines[0]), port=int(lines[3]), socket_dir=Path(lines[4]))
    except (FileNotFoundError, IndexError, ValueError):
        return None


def _clean_up_after_crash(folder: Folder) -> None:
    """After kill -9: wait for the remaining processes of the server, then remove the files that it left.

    PostgreSQL removes a stale postmaster.pid too, but not if its process id is that of a zombie or of another
    program by now. The file protects the data from a second server while processes of the first still write,
    so it is removed only after the last of them has exited. They exit by themselves when they notice that the
    postmaster is gone, and we never kill them. If we cannot list them, the file is left to PostgreSQL.
    """
    pid_file = folder.cluster / "postmaster.pid"
    if not pid_file.exists() or not processes.can_list_all():
        return
    deadline = time.monotonic() + ORPHAN_TIMEOUT_S
    while orphans := list(processes.of_cluster(folder.cluster)):
        if time.monotonic() > deadline:
            raise StartFailed(
                f"processes of a crashed server still use {folder.path}: {' '.join(map(str, orphans))}",
                "wait until they have exited, or kill them, then start again",
            )
        time.sleep(0.02)
    crashed = _read_pid_file(folder)
    if crashed is not None:
        _remove_socket_dir(folder, crashed)
    pid_file.unlink(missing_ok=True)


def _remove_socket_dir(folder: Folder, server: Postmaster) -> None:
    if server.socket_dir.name.startswith("lonnymq-") and folder.storage not in server.socket_dir.parents:
        shutil.rmtree(server.socket_dir, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _log_since(folder: Folder, position: int) -> str:
    if not folder.log.exists():
        return ""
    with folder.log.open(encoding="utf-8", errors="replace") as log:
        log.seek(position)
        return "".join(log.readlines()[-LOG_LINES_MAX:])
