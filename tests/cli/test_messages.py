"""lonnymq messages."""

import base64
import re
from datetime import UTC, datetime

import pytest

from lonnymq import Queue
from lonnymq.client.calls import ask
from lonnymq.commands import ProgressWrite
from tests.cli.conftest import Run
from tests.cli.running import on_terminal


def rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]


TITLES = ["id", "channel", "lane", "priority", "status", "when", "attempts", "size", "about"]


def test_a_list_shows_when_each_message_is_due(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue({"invoice": 7}, channel="acme", headers={"task": "send"}, max_attempts=3)
    queue.enqueue("later", channel="acme", delay=600)
    queue.enqueue("urgent", channel="acme", priority=5, lane="slow", dedupe_key="invoice 7")
    done = lonnymq("messages", "list")
    assert done.code == 0
    assert done.stdout.split("\n")[0].split() == TITLES
    soon = re.sub(r"\d+ s ago", "now", done.stdout)  # on a slow machine
    assert rows(soon) == [
        ["3", "acme", "slow", "5", "due", "now", "0", "8", "B", "invoice", "7"],
        ["1", "acme", "default", "0", "due", "now", "0/3", "13", "B", "send"],
        ["2", "acme", "default", "0", "scheduled", "in", "9", "min", "0", "7", "B"],
    ]


def test_a_list_by_channel_and_status(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="a", headers={"task": "send"})
    queue.enqueue(2, channel="b")
    queue.enqueue(3, channel="b", delay=600)
    taken = queue.dequeue(1, lease=90, consumer="mailer 1")
    assert [message.id for message in taken] == [1]

    def ids(*arguments: str) -> list[int]:
        return [message["id"] for message in lonnymq("messages", "list", "--json", *arguments).records]

    assert ids() == [2, 3]
    assert ids("--status", "due") == [2]
    assert ids("--status", "scheduled") == [3]
    assert ids("--status", "leased") == [1]
    assert ids("--status", "leased", "--consumer", "mailer 1") == [1]
    assert ids("--status", "leased", "--consumer", "mailer 2") == []
    assert ids("--channel", "a") == []
    shown = lonnymq("messages", "list", "--status", "leased").stdout
    assert "ends in 8" in shown or "ends in 90 s" in shown
    assert "send at mailer 1" in shown
    none = lonnymq("messages", "list", "--channel", "a")
    assert (none.code, none.stdout, none.stderr) == (0, "", "There are no waiting messages.\n")


def test_a_list_of_one_lane(queue: Queue, lonnymq: Run) -> None:
    for lane in ("default", "mail"):
        queue.enqueue("x", lane=lane)
        queue.enqueue("dead", lane=lane, max_attempts=1, priority=1)
    for message in queue.dequeue(2):
        queue.retry(message, error="broken")
    for command, found in {"messages": 3, "dead": 4}.items():
        [listed] = lonnymq(command, "list", "--lane", "mail", "--json").records
        assert (listed["id"], listed["lane"]) == (found, "mail")
        assert lonnymq(command, "list", "--lane", "nothing", "--json").records == []


def test_a_list_has_pages(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(3), channel="it's")
    first = lonnymq("messages", "list", "--limit", "2", "--json").records
    more = lonnymq("messages", "list", "--limit", "2").stderr
    assert more.startswith("For more: --after ")
    second = lonnymq("messages", "list", "--limit", "2", "--after", first[-1]["cursor"], "--json").records
    assert [message["id"] for message in (*first, *second)] == [1, 2, 3]


def test_a_list_shows_errors_on_one_line(queue: Queue, dsn: str) -> None:
    queue.enqueue(1, channel="c" * 100)
    [message] = queue.dequeue()
    queue.retry(message, error="no route\nto host " + "x" * 300)
    code, shown = on_terminal(["messages", "list"], dsn)
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").split("\r\n")
    assert code == 0
    assert len(plain) == 3
    assert max(map(len, plain)) <= 80
    assert r"no route\nt" in plain[1]


def test_show(queue: Queue, lonnymq: Run) -> None:
    created = queue.enqueue(
        {"to": "Zoë"}, channel="acme", run_at=datetime(2099, 12, 31, tzinfo=UTC), dedupe_key="k"
    )
    done = lonnymq("messages", "show", str(created.id))
    shown = {line[:10].strip(): line[12:] for line in done.stdout.splitlines()}
    assert shown["channel"] == "acme"
    assert shown["status"] == "scheduled"
    assert shown["due"].endswith(" y (2099-12-31T00:00:00.000Z)")
    assert shown["payload"] == '{"to": "Zoë"}'
    assert (shown["dedupe key"], shown["key held"]) == ("k", "while it waits")
    assert "error" not in shown
    record = lonnymq("messages", "show", str(created.id), "--json").record
    assert (record["payload"], record["dequeue_at"]) == ({"to": "Zoë"}, 4102358400000)
    assert "content" not in record


@pytest.mark.parametrize(
    ("value", "content_type"), [(b"\x89PNG\x1b[2J", "image/png"), (b"{broken", "application/json")]
)
def test_show_of_bytes(queue: Queue, lonnymq: Run, value: bytes, content_type: str) -> None:
    created = queue.enqueue(value, content_type=content_type)
    record = lonnymq("messages", "show", str(created.id), "--json").record
    assert base64.b64decode(record["content_base64"]) == value
    shown = lonnymq("messages", "show", str(created.id)).stdout
    assert repr(value) in shown


def test_show_of_a_large_payload(queue: Queue, lonnymq: Run) -> None:
    created = queue.enqueue("x" * 100_000)
    assert len(lonnymq("messages", "show", str(created.id)).stdout) < 10_000
    assert len(lonnymq("messages", "show", str(created.id), "--json").record["payload"]) == 100_000


def test_show_of_a_failed_message(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    [message] = queue.dequeue(consumer="mailer")
    queue.retry(message, error="Traceback:\n  line 1", state=b"page 3")
    done = lonnymq("messages", "show", str(message.id)).stdout.splitlines()
    assert "attempts     1" in done
    assert "error        Traceback:" in done
    assert "               line 1" in done
    assert "state        'page 3'" in done
    assert lonnymq("messages", "show", str(message.id), "--json").record["state_base64"] == "cGFnZSAz"


def test_show_of_progress(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    [message] = queue.dequeue()
    queue.perform(ask(ProgressWrite([message.id], [message.token], [0.4], ["rendering"])))
    shown = lonnymq("messages", "show", str(message.id)).stdout
    assert "40%: rendering, " in shown
    record = lonnymq("messages", "show", str(message.id), "--json").record
    assert (record["progress"], record["progress_note"]) == (pytest.approx(0.4), "rendering")


def test_show_of_a_finished_message(queue: Queue, lonnymq: Run) -> None:
    values = [{"total": 7}, b"\x89PNG", None]
    for value in values:
        queue.enqueue(1, channel="acme", keep_result=60)
        [message] = queue.dequeue()
        queue.complete(message, result=value)
    shown = {line[:17].strip(): line[19:] for line in lonnymq("messages", "show", "1").stdout.splitlines()}
    assert (shown["status"], shown["channel"], shown["result"]) == ("completed", "acme", '{"total": 7}')
    records = [lonnymq("messages", "show", str(id_), "--json").record for id_ in (1, 2, 3)]
    assert [record["status"] for record in records] == ["completed"] * 3
    assert records[0]["result"] == {"total": 7}
    assert base64.b64decode(records[1]["result_base64"]) == b"\x89PNG"
    assert "result" not in records[2]
    queue.cancel(queue.enqueue(1, keep_result=60).id or 0)
    assert "cancelled" in lonnymq("messages", "show", "4").stdout


def test_show_of_an_unknown_message(lonnymq: Run) -> None:
    done = lonnymq("messages", "show", "7")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "no message 7" in done.stderr
    assert "`lonnymq queue set --history`" in done.stderr


def test_cancel(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    [leased] = queue.dequeue()
    waiting = queue.enqueue(2)
    ids = [str(waiting.id), str(leased.id)]
    assert lonnymq("messages", "cancel", *ids).code == 2
    assert len(queue.messages()) == 1
    done = lonnymq("messages", "cancel", *ids, "--yes")
    assert done.code == 0
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == ["2 cancelled", "1 marked"]
    assert queue.messages() == []
    assert "cancelled" in lonnymq("messages", "list", "--status", "leased").stdout
    again = lonnymq("messages", "cancel", "2", "--yes", "--json")
    assert (again.code, again.record) == (1, {"id": 2, "result": "not_found"})


def test_cancel_asks(queue: Queue, dsn: str) -> None:
    queue.enqueue(1)
    code, shown = on_terminal(["messages", "cancel", "1"], dsn, b"n\n")
    assert (code, "Cancel 1 message?" in shown) == (1, True)
    assert len(queue.messages()) == 1


def test_run_now(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="a", delay=600)
    queue.enqueue(2, channel="b", delay=600)
    done = lonnymq("messages", "run-now", "1", "2", "--json")
    assert [outcome["result"] for outcome in done.records] == ["rescheduled", "rescheduled"]
    assert sorted(message.id for message in queue.dequeue(10)) == [1, 2]
    done = lonnymq("messages", "run-now", "1", "99")
    assert done.code == 1
    assert done.stdout.startswith("1 leased: a worker has it\n99 not_found")


def test_run_now_before_others(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    queue.enqueue(2, delay=600)
    assert lonnymq("messages", "run-now", "2", "--first").code == 0
    assert [message.id for message in queue.messages()] == [2, 1]
    assert rows(lonnymq("messages", "list").stdout)[0][5] == "first"


WRONG = [
    (["list", "--status", "dead"], "'dead' is not one of"),
    (["list", "--limit", "10001"], "10001"),
    (["list", "--after", "nonsense"], "cursor"),
    (["show", "seven"], "integer"),
    (["show", "0"], "greater than or equal to 1"),
    (["show", "9223372036854775808"], "less than or equal to 9223372036854775807"),
    (["cancel"], "Missing argument"),
    (["run-now", "1", "--priority", "3"], "--priority"),
]


def test_wrong_use(lonnymq: Run) -> None:
    for arguments, says in WRONG:
        done = lonnymq("messages", *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
        assert "Traceback" not in done.stderr
