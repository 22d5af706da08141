"""Completion in the shell."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq import Queue
from tests.cli.running import NOWHERE, environment, run

TIMEOUT_S = 60.0
PROGRAM = Path(sys.executable).parent / "lonnymq"
PROMPT = "> "


class Bash:
    """An interactive bash on a terminal: types text and reads what is shown."""

    def __init__(self, home: Path, dsn: str) -> None:
        self._ours, theirs = pty.openpty()
        path = os.pathsep.join([str(PROGRAM.parent), os.environ["PATH"]])
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--rcfile", home / ".bashrc", "-i"],
            cwd=home,
            env=environment(dsn, {"HOME": str(home), "PATH": path, "TERM": "dumb", "COLUMNS": "500"}),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._until(PROMPT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def run(self, command: str) -> None:
        self._type(f"{command}\n")
        self._until(f"\n{PROMPT}")

    def press_tab(self, line: str) -> str:
        """What Tab makes of an incomplete line. Ctrl-U deletes it again."""
        self._type(f"{line}\t\x15echo the-''end\n")
        return self._until(f"the-end\n{PROMPT}").replace("\a", "").partition("\r")[0]

    def _type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def _until(self, ending: str) -> str:
        shown, deadline = "", time.monotonic() + TIMEOUT_S
        while not shown.replace("\r", "").endswith(ending):
            assert time.monotonic() < deadline, shown
            if select.select([self._ours], [], [], 0.1)[0]:
                shown += os.read(self._ours, 1 << 16).decode()
        return shown


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory after `lonnymq --install-completion` in bash."""
    home = tmp_path_factory.mktemp("home")
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{PROGRAM} --install-completion; echo done"],
        env=os.environ | {"HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "bash completion installed" in done.stdout, done.stderr
    with (home / ".bashrc").open("a", encoding="ascii") as file:
        file.write(f"PS1={PROMPT!r}\n")
    return home


@pytest.fixture
def bash(home: Path, dsn: str) -> Iterator[Bash]:
    shell = Bash(home, dsn)
    try:
        yield shell
    finally:
        shell.close()


def test_a_tab_in_bash(bash: Bash, home: Path, queue: Queue) -> None:
    for name in ("acme", "acme-eu", "acme-eu-west", "bluebird", "needs quotes"):
        queue.enqueue(1, channel=name)
    (home / "messages.jsonl").touch()
    for begun, becomes in (
        ("lonnymq chan", "lonnymq channels "),
        ("lonnymq channels list --order w", "lonnymq channels list --order waiting "),
        ("lonnymq channels show b", "lonnymq channels show bluebird "),
        ("lonnymq enqueue --channel acme-", "lonnymq enqueue --channel acme-eu"),
        ("lonnymq enqueue --file mess", "lonnymq enqueue --file messages.jsonl "),
    ):
        assert bash.press_tab(begun) == becomes
    bash.run(f"export LONNYMQ_DSN={NOWHERE}")
    assert bash.press_tab("lonnymq channels show b") == "lonnymq channels show b"


def offered(*words: str, dsn: str | None, **env: str) -> list[str]:
    """What is offered to a shell; the last word is incomplete."""
    asked = {
        "_LONNYMQ_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["lonnymq", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = run(dsn=dsn, env=asked | env)
    assert done.stderr == ""
    return done.stdout.split()


def test_names_of_channels(queue: Queue, dsn: str) -> None:
    for name in ("acme", "acme-eu", "bluebird", "needs quotes", "needs'quotes", "needs-none"):
        queue.enqueue(1, channel=name)
    assert offered("channels", "show", "acme", dsn=dsn) == ["acme", "acme-eu"]
    assert offered("channels", "pause", "bluebird", "ne", dsn=dsn) == ["needs-none"]
    assert offered("messages", "list", "--channel", "", dsn=dsn) == [
        "acme",
        "acme-eu",
        "bluebird",
        "needs-none",
    ]
    assert offered("channels", "show", "--dsn", dsn, "b", dsn=None) == ["bluebird"]


def test_without_a_database_nothing_is_offered(queue: Queue, dsn: str) -> None:
    queue.enqueue(1, channel="acme")
    for address, env in (
        (None, {}),
        (NOWHERE, {}),
        ("no address", {}),
        (dsn, {"LONNYMQ_SCHEMA": "nowhere"}),
    ):
        assert offered("channels", "show", "a", dsn=address, **env) == []


@pytest.mark.parametrize(("shell", "begins"), [("zsh", "#compdef lonnymq"), ("fish", "complete --command")])
def test_scripts_for_other_shells(shell: str, begins: str) -> None:
    done = run(env={"_LONNYMQ_COMPLETE": f"source_{shell}"})
    assert done.stdout.lstrip().startswith(begins)
    assert f"complete_{shell}" in done.stdout
