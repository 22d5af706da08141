"""Several processes, one data folder."""

from pathlib import Path

import psycopg
import pytest

from lonnymq.embedded import Server
from tests.e2e.programs import FAST, USE_UNTIL_EXIT, USE_UNTIL_SIGNALLED, Program, is_alive, programs


@pytest.mark.parametrize("source", [USE_UNTIL_SIGNALLED, USE_UNTIL_EXIT], ids=["stop", "exit"])
def test_the_last_to_leave_stops_the_server(data_dir: Path, source: str) -> None:
    with Program(source, data_dir) as first, Program(source, data_dir) as second:
        pid = int(first.read_line())
        assert int(second.read_line()) == pid
        first.resume()
        assert first.end() == 0
        assert is_alive(pid)
        second.resume()
        assert second.end() == 0
        assert not is_alive(pid)


def test_those_who_start_at_once_get_one_server(data_dir: Path) -> None:
    with programs(USE_UNTIL_SIGNALLED, data_dir, count=4) as all_of_them:
        pids = {int(program.read_line()) for program in all_of_them}
        assert len(pids) == 1
        for program in all_of_them:
            program.resume()
        assert [program.end() for program in all_of_them] == [0, 0, 0, 0]
    assert not is_alive(pids.pop())


def test_coming_and_going_never_meets_a_half_stopped_server(data_dir: Path) -> None:
    source = "for _ in range(3):\n    with server: query('SELECT 1')\nsay('done')"
    with programs(source, data_dir, count=3) as all_of_them:
        assert [program.read_line() for program in all_of_them] == ["done"] * 3
        assert [program.end() for program in all_of_them] == [0, 0, 0]


def test_two_servers_in_one_process_share_as_well(data_dir: Path) -> None:
    with Server(data_dir, settings=FAST) as first:
        with Server(data_dir, settings=FAST) as second:
            assert first.pid == second.pid
        psycopg.connect(first.dsn()).close()
