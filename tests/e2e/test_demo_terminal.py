"""The demo on a terminal: its live table, its result, and that nothing is left behind."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq.demo import TENANTS
from tests.cli.terminal import CONTROL, WHOLE_SCREEN, Terminal
from tests.e2e.programs import eventually, is_alive

TIMEOUT_S = 240.0
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
    return Terminal(
        *("demo", "--no-spark"),
        dsn=None,
        columns=columns,
        lines=lines,
        env=env,
        timeout=TIMEOUT_S,
        module="tests.e2e.small_demo",
    )


def processes_of(folder: Path) -> list[int]:
    """The processes with this folder in their environment: the demo and its workers, but not the server."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in environ.read_bytes() and is_alive(int(environ.parent.name)):
                found.append(int(environ.parent.name))
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            pass  # of another user, or already gone
    return found


def drawn(terminal: Terminal) -> list[str]:
    return [CONTROL.sub("", line) for line in re.split(r"[\r\n]+", terminal.raw)]


def has_changed(terminal: Terminal) -> bool:
    """Whether several updates of the live table differ."""
    return len(set(SERVED.findall(CONTROL.sub("", terminal.raw)))) >= 3


def shows_all(terminal: Terminal) -> bool:
    """Whether one of the last two updates shows each tenant; the very last may be incomplete."""
    updates = CONTROL.sub("", terminal.raw).split("Messages served per tenant")[-2:]
    return any(all(tenant.channel in update for tenant in TENANTS) for update in updates)


@pytest.mark.long  # the next test sees the table, and tests/e2e/test_demo.py the result and its width
def test_the_table_is_live_and_the_result_fits_the_screen(folder: Path) -> None:
    with demo(folder, columns=80, lines=24) as terminal:
        terminal.until(lambda: "Messages served per tenant" in terminal.raw)
        terminal.until(lambda: has_changed(terminal))
        terminal.until(lambda: "Stopped the server" in terminal.raw)
        assert terminal.end() == 0
    live, _, end = terminal.raw.partition("Median wait per tenant")
    assert live.count(UP_AND_ERASED) > 20, "each update overwrites the one before"
    assert WHOLE_SCREEN not in terminal.raw
    assert max(map(len, drawn(terminal))) <= 80
    for tenant in TENANTS:
        assert tenant.channel in end
    assert end.count("█") > 100
    assert end.count("░") > 100
    assert "in a FIFO queue it would have waited" in " ".join(end.split())
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def test_ctrl_c_leaves_nothing_behind(folder: Path) -> None:
    with demo(folder, columns=120, lines=40) as terminal:
        terminal.until(lambda: has_changed(terminal))
        terminal.until(lambda: shows_all(terminal))
        [server] = {int(path.read_text().split()[0]) for path in folder.rglob("postmaster.pid")}
        assert is_alive(server)
        assert len(processes_of(folder)) > 2
        terminal.press("\x03")
        assert terminal.end() == 130
    assert terminal.raw.count(UP_AND_ERASED) > 20, "each update overwrites the one before"
    assert WHOLE_SCREEN not in terminal.raw
    assert max(map(len, drawn(terminal))) <= 120
    assert "Traceback" not in terminal.raw
    assert list(folder.iterdir()) == []
    assert eventually(lambda: processes_of(folder) == [] and not is_alive(server))
