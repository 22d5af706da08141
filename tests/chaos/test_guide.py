"""The commands of docs/chaos.md are understood. Runs are in test_run.py."""

import re
import shlex
from pathlib import Path

import pytest

from chaos.options import from_arguments

PAGE = Path(__file__).resolve().parents[2] / "docs" / "chaos.md"
COMMANDS = re.findall(r"^\./run chaos (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_understood(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = shlex.split(command)
    if "--list" in arguments:
        with pytest.raises(SystemExit, match="0"):
            from_arguments(arguments)
        assert "server-kill" in capsys.readouterr().out
    else:
        assert from_arguments(arguments).messages >= 1


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) > 3
