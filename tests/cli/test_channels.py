"""lonnymq channels."""

from lonnymq import NewMessage, Queue
from tests.cli.conftest import Run
from tests.cli.running import on_terminal


def columns(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_a_list_says_what_they_hold_and_why_they_wait(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="ready")
    queue.enqueue(2, channel="later", delay=600)
    queue.enqueue(3, channel="held")
    queue.channel("held").set(paused=True)
    done = lonnymq("channels", "list")
    assert (done.code, done.stderr) == (0, "")
    head, *rows = columns(done.stdout)
    assert head == ["channel", "due", "scheduled", "leased", "dead", "oldest", "served", "state"]
    assert [[row[0], row[1], row[2], row[-1]] for row in rows] == [
        ["held", "1", "0", "paused"],
        ["later", "0", "1", "scheduled"],
        ["ready", "1", "0", "ready"],
    ]
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_a_list_as_json_is_an_object_a_line(queue: Queue, lonnymq: Run) -> None:
    for name in ("a", "b", 'c "[red]\x1b[2J\n'):
        queue.enqueue(1, channel=name)
    found = lonnymq("channels", "list", "--json").records
    assert [channel["channel"] for channel in found] == ["a", "b", 'c "[red]\x1b[2J\n']
    assert found[0]["due"] == 1
    assert found[0]["blocked_by"] is None


def test_a_list_has_pages(queue: Queue, lonnymq: Run) -> None:
    for name in ("a", "b b", "c"):
        queue.enqueue(1, channel=name)
    first = lonnymq("channels", "list", "--limit", "2")
    assert "--after 'b b'" in first.stderr
    assert "--after" not in lonnymq("channels", "list", "--limit", "2", "--json").stderr
    second = lonnymq("channels", "list", "--limit", "2", "--after", "b b", "--json")
    assert [channel["channel"] for channel in second.records] == ["c"]
    assert "--after" not in lonnymq("channels", "list", "--limit", "2", "--after", "b b").stderr
    assert lonnymq("channels", "list", "--after", "c").stderr == "There are no more channels.\n"
    [with_prefix] = lonnymq("channels", "list", "--prefix", "b", "--json").records
    assert with_prefix["channel"] == "b b"
    none = lonnymq("channels", "list", "--prefix", "d")
    assert none.stderr == "There are no channels whose names begin with it.\n"


def test_a_list_is_ordered_by_what_waits(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(3), channel="some")
    queue.enqueue_many(range(9), channel="many")
    queue.enqueue(1, channel="a")
    found = lonnymq("channels", "list", "--order", "waiting", "--limit", "2", "--json").records
    assert [channel["channel"] for channel in found] == ["many", "some"]
    refused = lonnymq("channels", "list", "--order", "waiting", "--after", "a")
    assert (refused.code, "has one page" in refused.stderr) == (2, True)


def test_counts_in_a_list_end(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(1_001), channel="many")
    queue.enqueue_many(NewMessage(n, channel="many", delay=3600) for n in range(1_001))
    assert columns(lonnymq("channels", "list").stdout)[1][1:3] == ["1,001", "1,000+"]
    shown = lonnymq("channels", "show", "many").stdout.split("\n")
    assert [line.split()[1] for line in shown if line.startswith(("due", "scheduled"))] == ["1,001", "1,001"]


def test_an_empty_list_is_no_data(lonnymq: Run) -> None:
    done = lonnymq("channels", "list")
    assert (done.code, done.stdout, done.stderr) == (0, "", "There are no channels.\n")
    assert lonnymq("channels", "list", "--json").stdout == ""


def test_it_fits_a_terminal_of_80_columns(queue: Queue, dsn: str, lonnymq: Run) -> None:
    name = "long \x1b[2J " + "x" * 200
    queue.enqueue(1, channel=name)
    code, shown = on_terminal(["channels", "list"], dsn)
    assert code == 0
    assert "\x1b[2J" not in shown
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
    assert max(map(len, plain)) <= 80
    assert any("…" in line and line.startswith(r"long \x1b[2J xxx") for line in plain)
    assert name.replace("\x1b", r"\x1b") in lonnymq("channels", "list").stdout, "a pipe has all of it"


def test_show(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="acme")
    queue.channel("acme").set(max_concurrency=2, rate="2/s", burst=1_000, max_size=7)
    [message] = queue.dequeue()
    assert message.channel == "acme"
    done = lonnymq("channels", "show", "acme")
    shown = {line[:15].strip(): line[17:] for line in done.stdout.splitlines()}
    assert {name: shown[name] for name in ("state", "leased", "max concurrency", "max size")} == {
        "state": "empty",
        "leased": "1",
        "max concurrency": "2",
        "max size": "7",
    }
    assert (shown["rate"], shown["burst"]) == ("2/s", "1,000")
    assert shown["last served"].startswith(("now (20", "1 s ago (20"))
    told = lonnymq("channels", "show", "acme", "--json").record
    assert (told["leased"], told["max_concurrency"], told["rate"], told["burst"]) == (1, 2, "2/s", 1_000)


def test_show_of_one_that_is_not_there(lonnymq: Run) -> None:
    done = lonnymq("channels", "show", "acme")
    assert (done.code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "channel 'acme' has no messages" in done.stderr


def test_show_of_one_that_has_nothing_but_a_past(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="acme")
    queue.complete_many(queue.dequeue())
    assert lonnymq("channels", "show", "acme", "--json").record["served"] == 1


def test_set(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="acme")
    done = lonnymq(
        *(
            "channels",
            "set",
            "acme",
            "--max-concurrency",
            "2",
            "--rate",
            "100/min",
            "--burst",
            "5",
            "--max-size",
            "9",
        ),
        *("--weight", "2.5"),
    )
    assert (done.code, done.stderr) == (0, "")
    policy = queue.channel("acme").get()
    assert (policy.max_concurrency, policy.rate, policy.burst, policy.max_size) == (2, "100/min", 5, 9)
    assert policy.weight == 2.5
    assert done.stdout.split()[-1] == "2.5"
    told = lonnymq("channels", "set", "acme", "--max-size", "0", "--json").record
    assert told == {
        "channel": "acme",
        "max_concurrency": 2,
        "rate": "100/min",
        "burst": 5,
        "paused": False,
        "max_size": None,
        "weight": 2.5,
        "inherited": [],
    }


def test_what_the_queue_sets_for_its_channels(queue: Queue, lonnymq: Run) -> None:
    """A channel inherits it, sets its own, sets no limit, and inherits again."""
    queue.enqueue(1, channel="acme")
    given = ("--channel-max-concurrency", "4", "--channel-rate", "20/s", "--channel-burst", "50")
    settings = lonnymq("queue", "set", *given, "--channel-max-size", "1000", "--json").record
    assert {name: value for name, value in settings.items() if name.startswith("channel_")} == {
        "channel_max_concurrency": 4,
        "channel_rate": "20/s",
        "channel_burst": 50,
        "channel_max_size": 1_000,
    }
    shown = lonnymq("channels", "show", "acme").stdout
    for limit in ("4", "20/s", "50", "1,000"):
        assert f" {limit} (inherited)\n" in shown
    told = lonnymq("channels", "set", "acme", "--max-concurrency", "0", "--rate", "5/s", "--json").record
    assert (told["max_concurrency"], told["rate"], told["burst"]) == (None, "5/s", 50)
    assert told["inherited"] == ["burst", "max_size"]
    given = ("--max-concurrency", "inherit", "--rate", "inherit", "--max-size", "0")
    told = lonnymq("channels", "set", "acme", *given, "--json").record
    assert (told["max_concurrency"], told["rate"], told["max_size"]) == (4, "20/s", None)
    assert told["inherited"] == ["max_concurrency", "rate", "burst"]
    assert "has no messages and no policy" in lonnymq("channels", "show", "nobody").stderr
    lonnymq(
        "queue", "set", "--channel-max-concurrency", "0", "--channel-rate", "0", "--channel-max-size", "0"
    )
    policy = queue.channel("other").get()
    assert (policy.max_concurrency, policy.rate, policy.max_size) == (None, None, None)


def test_set_tells_of_a_name_that_is_new(queue: Queue, lonnymq: Run) -> None:
    done = lonnymq("channels", "set", "acmee", "--max-size", "9", "--json")
    assert done.code == 0
    assert "'acmee' is new" in done.stderr
    assert "is new" not in lonnymq("channels", "set", "acmee", "--max-size", "8").stderr


WRONG = [
    (["set", "acme"], "nothing to set (give --max-concurrency"),
    (["set", "acme", "--max-concurrency", "-1"], "'--max-concurrency': -1 is less than 0"),
    (["set", "acme", "--max-concurrency", "99999999999"], "out of range"),
    (["set", "acme", "--max-concurrency", "many"], "'many' is neither a whole number nor 'inherit'"),
    (["set", "acme", "--rate", "fast"], "'--rate': 'fast' is not a rate (give one such as '20/s'"),
    (["set", "acme", "--rate", "1/2day"], "a rate of '1/2day' is out of range (give one from 1/day"),
    (["set", "acme", "--burst", "0"], "'--burst': 0 is less than 1"),
    (["set", "acme", "--weight", "0"], "--weight"),
    (["set", "x" * 256, "--max-size", "1"], "256 bytes long"),
    (["set", "", "--max-size", "1"], "a channel needs a name"),
    (["set", "\udcff", "--max-size", "1"], "a lone surrogate"),
    (["list", "--limit", "0"], "--limit"),
    (["list", "--limit", "1001"], "1001"),
    (["list", "--order", "size"], "'size' is not one of"),
    (["show", "x" * 256], "256 bytes long"),
    (["show"], "Missing argument"),
    (["pause"], "Missing argument"),
]


def test_wrong_use(lonnymq: Run) -> None:
    for arguments, says in WRONG:
        done = lonnymq("channels", *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
        assert "Traceback" not in done.stderr


def test_pause_and_resume(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="a")
    assert [policy["paused"] for policy in lonnymq("channels", "pause", "a", "b", "--json").records] == [
        True,
        True,
    ]
    assert queue.dequeue() == []
    assert lonnymq("channels", "resume", "a").code == 0
    assert [message.channel for message in queue.dequeue()] == ["a"]
    assert queue.channel("b").get().paused


def test_delete_an_empty_one(queue: Queue, lonnymq: Run) -> None:
    queue.channel("acme").set(max_size=3)
    assert lonnymq("channels", "delete", "acme").code == 2
    done = lonnymq("channels", "delete", "acme", "--yes")
    assert (done.code, done.stdout) == (0, "deleted: acme (messages: 0)\n")
    assert queue.channel("acme").get().max_size is None
    gone = lonnymq("channels", "delete", "acme", "--yes")
    assert (gone.code, "there is no channel 'acme'" in gone.stderr) == (1, True)


def test_delete_leaves_messages_alone_unless_told(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue_many(range(12_000), channel="acme")
    done = lonnymq("channels", "delete", "acme", "--yes")
    assert done.code == 1
    assert "is not empty: 12,000 waiting (add --with-messages" in done.stderr
    told = lonnymq("channels", "delete", "acme", "--with-messages", "--yes", "--json").record
    assert told == {"channel": "acme", "result": "deleted", "messages": 12_000}
    assert queue.messages(channel="acme") == []


def test_delete_finds_what_is_not_dispatched_yet(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1, channel="acme")
    later = queue.enqueue(2, channel="acme", delay=600)
    [message] = queue.dequeue()
    queue.retry(message)
    queue.cancel(later.id or 0)
    assert queue.channel("acme").stats().waiting == 1
    done = lonnymq("channels", "delete", "acme", "--yes")
    assert (done.code, "is not empty" in done.stderr) == (1, True)
    assert queue.get(message.id) is not None


def test_delete_asks(queue: Queue, dsn: str) -> None:
    queue.enqueue(1, channel="acme")
    delete = ["channels", "delete", "acme", "--with-messages"]
    code, shown = on_terminal(delete, dsn, b"n\n")
    assert (code, "Delete channel 'acme' (1 waiting)?" in shown) == (1, True)
    assert len(queue.messages()) == 1
    assert on_terminal(delete, dsn, b"y\n")[0] == 0
    assert queue.messages() == []


def test_pausing_several_channels_is_all_or_nothing(lonnymq: Run) -> None:
    for command in ("pause", "resume"):
        refused = lonnymq("channels", command, "acme", "x" * 256)
        assert (refused.code, refused.stdout) == (2, "")
        assert lonnymq("channels", "show", "acme").code == 1, "it has no policy"
    paused = lonnymq("channels", "pause", "b", "a", "b", "--json").records
    assert [(policy["channel"], policy["paused"]) for policy in paused] == [
        ("b", True),
        ("a", True),
        ("b", True),
    ]
