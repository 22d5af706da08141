"""The demo on a terminal: while it runs, and what remains on the screen."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.demo import TENANTS
from tests.cli.terminal import CONTROL, WHOLE_SCREEN, Terminal
from tests.e2e.programs import eventually, is_alive

MINUTES = 240.0
SERVED = re.compile(r"megacorp +\S+ +(\d+) ")
UP_AND_ERASED = "\x1b[1A\x1b[2K"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files that the server's account can reach."""
    path = Path(tempfile.mkdtemp(prefix="lonnymq-e2e-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def demo(folder: Path, columns: int, lines: int) -> Terminal:
    env = {"TMPDIR": str(folder), "LINES": str(lines)}
    return Terminal("demo", "--no-spark", dsn=None, columns=columns, lines=lines, env=env, patience=MINUTES)


def processes_of(folder: Path) -> list[int]:
    """Those that were told to use it: the demo itself and its workers; a server hides what it was told."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in environ.read_bytes() and is_alive(int(environ.parent.name)):
                found.append(int(environ.parent.name))
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            pass  # somebody else's, or it has ended
    return found


def drawn(terminal: Terminal) -> list[str]:
    return [CONTROL.sub("", line) for line in re.split(r"[\r\n]+", terminal.raw)]


def has_moved(terminal: Terminal) -> bool:
    """Whether the served counts differ between frames."""
    return len(set(SERVED.findall(CONTROL.sub("", terminal.raw)))) >= 3


def shows_all(terminal: Terminal) -> bool:
    """Whether each tenant has a line in one of the last two looks; the very last may be half drawn."""
    looks = CONTROL.sub("", terminal.raw).split("Who is being served")[-2:]
    return any(all(tenant.channel in look for tenant in TENANTS) for look in looks)


def test_it_is_live_and_ends_with_a_table_and_bars_that_fit(folder: Path) -> None:
    with demo(folder, columns=80, lines=24) as terminal:
        terminal.until(lambda: "Who is being served" in terminal.raw)
        terminal.until(lambda: has_moved(terminal))
        terminal.until(lambda: "The server is stopped" in terminal.raw)
        assert terminal.end() == 0
    live, _, end = terminal.raw.partition("How long did half of the messages wait?")
    assert live.count(UP_AND_ERASED) > 20, "drawn over, not one below the other"
    assert WHOLE_SCREEN not in terminal.raw
    assert max(map(len, drawn(terminal))) <= 80
    for tenant in TENANTS:
        assert tenant.channel in end
    assert end.count("█") > 100
    assert end.count("░") > 100
    assert "in a plain queue it would have waited" in " ".join(end.split())
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def test_ctrl_c_in_the_middle_leaves_nothing(folder: Path) -> None:
    with demo(folder, columns=120, lines=40) as terminal:
        terminal.until(lambda: has_moved(terminal))
        terminal.until(lambda: shows_all(terminal))
        [server] = {int(path.read_text().split()[0]) for path in folder.rglob("postmaster.pid")}
        assert is_alive(server)
        assert len(processes_of(folder)) > 2
        terminal.press("\x03")
        assert terminal.end() == 130
    assert max(map(len, drawn(terminal))) <= 120
    assert "Traceback" not in terminal.raw
    assert list(folder.iterdir()) == []
    assert eventually(lambda: processes_of(folder) == [] and not is_alive(server))
