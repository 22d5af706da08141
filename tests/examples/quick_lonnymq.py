"""The command `lonnymq` for a page with many commands, so that each need not import everything again.

A server has imported the command line. For each command, it forks a process that gets the arguments, the
folder, the environment and the open files of a small client.
"""

import contextlib
import io
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BIGGEST = 1 << 20
CLIENT = """#!{python} -IS
import os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
told = [os.getcwd(), *(f"{{name}}={{value}}" for name, value in os.environ.items()), "", *sys.argv[1:]]
socket.send_fds(server, ["\\0".join(told).encode()], [0, 1, 2])
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(10) or 70))
"""


@contextlib.contextmanager
def on_path(folder: Path) -> Iterator[None]:
    """While the block runs, `lonnymq` in a shell is this command."""
    address = folder / "socket"
    client = folder / "lonnymq"
    client.write_text(CLIENT.format(python=sys.executable, address=str(address)), encoding="utf-8")
    client.chmod(0o755)
    with subprocess.Popen([sys.executable, "-P", __file__, address], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()  # it listens
        before = os.environ["PATH"]
        os.environ["PATH"] = os.pathsep.join([str(folder), before])
        try:
            yield
        finally:
            os.environ["PATH"] = before
            server.terminate()


def serve(address: str) -> None:
    from lonnymq.cli import main

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        for command in ("channels list", "enqueue 1", "--help"):  # before there is a queue: only to import
            with contextlib.suppress(SystemExit):
                sys.argv = ["lonnymq", *command.split()]
                main()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("listening", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the processes
        while True:
            client, _ = listener.accept()
            if os.fork() == 0:
                answer(client)
            client.close()


def answer(client: socket.socket) -> None:
    from lonnymq.cli import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told, files, _, _ = socket.recv_fds(client, BIGGEST, 3)
    while more := client.recv(BIGGEST):
        told += more
    folder, *rest = told.decode().split("\0")
    split = rest.index("")
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.chdir(folder)
    os.environ.clear()
    for line in rest[:split]:
        name, _, value = line.partition("=")
        os.environ[name] = value
    sys.argv = ["lonnymq", *rest[split + 1 :]]
    code: object = 70
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        client.sendall(str(code).encode())
        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
