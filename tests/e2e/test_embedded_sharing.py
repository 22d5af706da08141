"""Several processes, one data folder."""

from pathlib import Path

import psycopg
import pytest

from lonnymq.embedded import Server
from tests.e2e.programs import EXIT_WHEN_RESUMED, FAST, STOP_WHEN_RESUMED, Program, is_alive, programs


@pytest.mark.parametrize("source", [STOP_WHEN_RESUMED, EXIT_WHEN_RESUMED], ids=["stop", "exit"])
def test_the_last_program_stops_the_server(data_dir: Path, source: str) -> None:
    with Program(source, data_dir) as first, Program(source, data_dir) as second:
        pid = int(first.read_line())
        assert int(second.read_line()) == pid
        first.resume()
        assert first.wait() == 0
        assert is_alive(pid)
        second.resume()
        assert second.wait() == 0
        assert not is_alive(pid)


def test_programs_that_start_together_share_one_server(data_dir: Path) -> None:
    with programs(STOP_WHEN_RESUMED, data_dir, count=4) as running:
        pids = {int(program.read_line()) for program in running}
        assert len(pids) == 1
        for program in running:
            program.resume()
        assert [program.wait() for program in running] == [0, 0, 0, 0]
    assert not is_alive(pids.pop())


def test_repeated_starts_and_stops_never_meet_a_half_stopped_server(data_dir: Path) -> None:
    source = "for _ in range(3):\n    with server: query('SELECT 1')\nsay('done')"
    with programs(source, data_dir, count=3) as running:
        assert [program.read_line() for program in running] == ["done"] * 3
        assert [program.wait() for program in running] == [0, 0, 0]


def test_two_servers_in_one_process_share_too(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as first:
        with Server(data_dir, settings=FAST) as second:
            assert first.pid == second.pid
        psycopg.connect(first.dsn()).close()
