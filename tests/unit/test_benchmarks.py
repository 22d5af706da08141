import pytest

from benchmarks.fairness import ARRIVALS, NOISY_BACKLOG, Fifo, jain, waits
from benchmarks.peers.peer import MISSES, PAUSE, Script, commit_mode


def test_jains_index() -> None:
    assert jain([5, 5, 5, 5]) == 1
    assert jain([20, 0, 0, 0]) == 0.25
    assert 0.25 < jain([10, 5, 3, 2]) < 1


def test_without_tenants_the_quiet_wait_for_the_whole_backlog() -> None:
    waited = waits(Fifo())
    assert len(waited) == ARRIVALS
    assert min(waited) > 0.9 * NOISY_BACKLOG


class Fair:
    """Serves the noisy tenant and the quiet ones by turns."""

    def __init__(self) -> None:
        self._quiet: list[str] = []
        self._is_quiets_turn = True

    def put(self, channel: str, count: int = 1) -> None:
        if count == 1:
            self._quiet.append(channel)

    def take(self) -> str:
        self._is_quiets_turn = not self._is_quiets_turn
        return self._quiet.pop(0) if self._is_quiets_turn and self._quiet else "c1"


def test_waits_are_counted_in_messages_served() -> None:
    assert set(waits(Fair())) <= {1, 2}


def test_a_script_that_stops_when_there_is_no_more() -> None:
    script = Script(
        f"SELECT 1 AS got \\gset\n\\if :got > 0\nSELECT 2;\n\\else\n{PAUSE}\n\\endif\n"
    ).until_empty()
    assert dict(script.variables) == {"misses": "0"}
    assert f"\\if :misses >= {MISSES}\nSELECT 1 / 0;\n\\endif\n{PAUSE}" in script.text
    assert "SELECT 2;\n\\set misses 0\n\\else" in script.text


@pytest.mark.parametrize(("commit", "setting"), [("durable", "on"), ("async", "off")])
def test_how_a_dequeue_commits(commit: str, setting: str) -> None:
    assert f"'{setting}', TRUE" in commit_mode(commit)  # type: ignore[arg-type]
