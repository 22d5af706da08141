"""lonnymq dead."""

import pytest

from lonnymq import Queue
from tests.cli.conftest import Run
from tests.cli.running import on_terminal


def make_dead(queue: Queue, channel: str, error: str, dedupe_key: str | None = None) -> int:
    created = queue.enqueue({"of": channel}, channel=channel, max_attempts=1, dedupe_key=dedupe_key)
    [message] = queue.dequeue()
    assert (message.id, queue.retry(message, error=error)) == (created.id, "dead")
    return message.id


@pytest.fixture
def dead(queue: Queue) -> list[int]:
    return [
        make_dead(queue, "acme", "timeout"),
        make_dead(queue, "acme", "no\nroute"),
        make_dead(queue, "bee", "timeout"),
    ]


def test_a_list(dead: list[int], lonnymq: Run) -> None:
    done = lonnymq("dead", "list")
    assert done.code == 0
    head, *rows = (line.split() for line in done.stdout.splitlines())
    assert head == ["id", "channel", "lane", "died", "attempts", "size", "error"]
    assert [[row[0], row[1], row[-1]] for row in rows] == [
        ["1", "acme", "timeout"],
        ["2", "acme", r"no\nroute"],
        ["3", "bee", "timeout"],
    ]


def test_a_list_of_some(dead: list[int], lonnymq: Run) -> None:
    def ids(*arguments: str) -> list[int]:
        return [message["id"] for message in lonnymq("dead", "list", "--json", *arguments).records]

    assert ids() == dead
    assert ids("--channel", "acme") == dead[:2]
    assert ids("--error", "time%") == [dead[0], dead[2]]
    assert ids("--limit", "2") == dead[:2]
    assert ids("--limit", "2", "--after", str(dead[1])) == dead[2:]
    assert f"--after {dead[1]}" in lonnymq("dead", "list", "--limit", "2").stderr
    none = lonnymq("dead", "list", "--channel", "nobody")
    assert (none.code, none.stdout, none.stderr) == (0, "", "There are no dead messages.\n")


def test_show(queue: Queue, dead: list[int], lonnymq: Run) -> None:
    done = lonnymq("dead", "show", "2")
    assert done.code == 0
    shown = done.stdout.splitlines()
    assert "status       dead" in shown
    assert "error        no" in shown
    assert "             route" in shown
    assert 'payload      {"of": "acme"}' in shown
    record = lonnymq("dead", "show", "2", "--json").record
    assert (record["status"], record["error"], record["payload"]) == ("dead", "no\nroute", {"of": "acme"})
    queue.dead.retry([2])
    [message] = queue.dequeue()
    queue.retry(message, error="again")
    assert r"no\nroute" in lonnymq("dead", "show", "2").stdout, "the error of the time before"


def test_show_of_one_that_is_not_dead(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    living = lonnymq("dead", "show", "1")
    assert (living.code, "is not dead: it is due (`lonnymq messages show 1`" in living.stderr) == (1, True)
    none = lonnymq("dead", "show", "2")
    assert (none.code, "no message 2" in none.stderr) == (1, True)


def test_retry_some(queue: Queue, dead: list[int], lonnymq: Run) -> None:
    done = lonnymq("dead", "retry", "1", "3", "99")
    assert done.code == 1
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        "1 retried",
        "3 retried",
        "99 not_found",
    ]
    assert [message.id for message in queue.messages()] == [1, 3]
    assert lonnymq("dead", "retry", "2", "--delay", "600", "--json").record == {"id": 2, "result": "retried"}
    assert [message.id for message in queue.messages(status="scheduled")] == [2]


def test_retry_all(queue: Queue, dead: list[int], lonnymq: Run) -> None:
    done = lonnymq("dead", "retry", "--all", "--channel", "acme", "--error", "time%")
    assert (done.code, done.stdout) == (0, "1 retried\n")
    assert lonnymq("dead", "retry", "--all", "--json").record == {"retried": 2, "refused": 0}
    assert [message.id for message in queue.messages()] == [1, 2, 3]


def test_retry_of_what_is_refused(queue: Queue, lonnymq: Run) -> None:
    make_dead(queue, "acme", "timeout", dedupe_key="k")
    queue.enqueue("another", channel="acme", dedupe_key="k")
    assert lonnymq("dead", "retry", "1", "--json").record == {"id": 1, "result": "duplicate"}
    done = lonnymq("dead", "retry", "--all")
    assert (done.code, done.stdout.startswith("0 retried, 1 refused: ")) == (1, True)


def test_groups(dead: list[int], lonnymq: Run) -> None:
    head, first, second = (line.split() for line in lonnymq("dead", "groups").stdout.splitlines())
    assert head == ["group", "messages", "channels", "first", "last", "example", "task", "error"]
    assert [first[1], first[2], first[-1]] == ["2", "2", "timeout"]
    assert [second[1], second[2], second[-1]] == ["1", "1", "no"]
    by_channel = lonnymq("dead", "groups", "--by-channel", "--channel", "bee", "--json").record
    assert (by_channel["channel"], by_channel["pattern"], by_channel["example_id"]) == ("bee", "timeout", 3)
    assert by_channel["fingerprint"] == first[0]
    cut = lonnymq("dead", "groups", "--scan", "2", "--limit", "1")
    assert "the newest 2 were read. To read more: --scan 20\nFor more groups: a higher --limit" in cut.stderr
    none = lonnymq("dead", "groups", "--channel", "nobody")
    assert (none.code, none.stdout, none.stderr) == (0, "", "There are no dead messages.\n")


def test_a_group_is_retried_over_a_time(queue: Queue, dead: list[int], lonnymq: Run) -> None:
    timeout, other = (group["fingerprint"] for group in lonnymq("dead", "groups", "--json").records)
    retry = ["dead", "retry", "--all", "--group", timeout]
    assert [found["id"] for found in lonnymq("dead", "list", "--group", timeout, "--json").records] == [1, 3]
    assert lonnymq(*retry, "--spread", "10m", "--dry-run").stdout == "2 would be retried\n"
    assert lonnymq(*retry, "--dry-run", "--json").record == {"would_retry": 2}
    assert len(queue.dead.list()) == 3
    assert lonnymq(*retry, "--spread", "10m").stdout == "2 retried\n"
    first, last = (
        found.dequeue_at for status in ("due", "scheduled") for found in queue.messages(status=status)
    )
    assert last - first == 300_000
    again = lonnymq(*retry)
    assert (again.code, "`lonnymq dead groups` lists" in again.said) == (1, True)
    assert lonnymq("dead", "discard", "--all", "--group", timeout, "--yes").code == 1
    assert lonnymq("dead", "discard", "--all", "--group", other, "--yes").stdout == "1 discarded\n"


def test_discard(queue: Queue, dead: list[int], lonnymq: Run) -> None:
    assert lonnymq("dead", "discard", "1").code == 2
    assert lonnymq("dead", "discard", "--all").code == 2
    assert len(queue.dead.list()) == 3
    assert lonnymq("dead", "discard", "1", "--yes").stdout == "1 discarded: it is gone\n"
    assert lonnymq("dead", "discard", "1", "--yes").code == 1
    assert lonnymq("dead", "discard", "--all", "--channel", "bee", "--yes").stdout == "1 discarded\n"
    assert [message.id for message in queue.dead.list()] == [2]
    assert lonnymq("dead", "discard", "--all", "--yes", "--json").record == {"discarded": 1}


def test_discard_asks(queue: Queue, dead: list[int], dsn: str) -> None:
    discard = ["dead", "discard", "--all", "--channel", "acme"]
    code, shown = on_terminal(discard, dsn, b"n\n")
    assert (code, "Discard all dead messages of channel 'acme' for good?" in shown) == (1, True)
    assert len(queue.dead.list()) == 3
    assert on_terminal(discard, dsn, b"y\n")[0] == 0
    assert len(queue.dead.list()) == 1


WRONG = [
    ([], "no messages given"),
    (["--channel", "acme"], "no messages given"),
    (["1", "--all"], "ids cannot be combined with"),
    (["1", "--channel", "acme"], "ids cannot be combined with"),
    (["1", "--group", "0123456789ab"], "ids cannot be combined with"),
    (["one"], "integer"),
]


@pytest.mark.parametrize("command", [["retry"], ["discard", "--yes"]])
def test_wrong_use(queue: Queue, dead: list[int], lonnymq: Run, command: list[str]) -> None:
    for arguments, says in WRONG:
        done = lonnymq("dead", *command, *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
    assert lonnymq("dead", *command, "--all", "--channel", "").code == 0
    assert len(queue.dead.list()) == 3, "no channel has an empty name"


def test_a_delay_is_not_for_all(lonnymq: Run) -> None:
    assert lonnymq("dead", "retry", "--all", "--delay", "1").code == 2


def test_wrong_use_of_retry(queue: Queue, lonnymq: Run) -> None:
    for arguments, says in [
        (["1", "--dry-run"], "--dry-run is for --all"),
        (["--all", "--spread", "soon"], "'soon' is not a duration (write 90s, 10m"),
        (["--all", "--spread", "31d"], "a spread of 2678400000 ms is out of range. Give 0 to 30 days."),
        (["--all", "--group", "timeout"], "'timeout' is not a fingerprint. List the groups"),
    ]:
        done = lonnymq("dead", "retry", *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
