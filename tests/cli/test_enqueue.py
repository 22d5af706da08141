"""lonnymq enqueue."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from lonnymq import Queue
from tests.cli.conftest import Run
from tests.cli.running import environment, on_terminal


def lines(*messages: object) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_one(queue: Queue, lonnymq: Run) -> None:
    done = lonnymq("enqueue", '{"invoice": 7}', "--channel", "acme")
    assert (done.code, done.stdout, done.stderr) == (0, "created: message 1 in channel acme\n", "")
    [message] = queue.dequeue()
    assert (message.channel, message.payload) == ("acme", {"invoice": 7})


@pytest.mark.parametrize(
    ("given", "value"), [(['"a text"'], "a text"), (["7.5"], 7.5), (["null"], None), (["a", "--text"], "a")]
)
def test_one_of_any_kind(queue: Queue, lonnymq: Run, given: list[str], value: object) -> None:
    told = lonnymq("enqueue", *given, "--json").record
    assert told == {"id": 1, "result": "created", "channel": "default"}
    [message] = queue.dequeue()
    assert message.payload == value


def test_one_with_all_that_can_be_said(queue: Queue, lonnymq: Run) -> None:
    more = ["--dedupe-key", "k", "--header", "trace=a=b", "--header", "x=", "--max-attempts", "2"]
    more += ["--unique-while", "running", "--unique-for", "1.5"]
    assert lonnymq("enqueue", "1", "--delay", "600", *more).code == 0
    again = lonnymq("enqueue", "1", *more)
    assert (again.code, again.stdout) == (0, "duplicate: message 1 in channel default has the key\n")
    [message] = queue.messages()
    assert (message.status, message.dedupe_key, message.max_attempts) == ("scheduled", "k", 2)
    assert message.headers == {"trace": "a=b", "x": "", "content-type": "application/json"}
    found = queue.get(message.id)
    assert found is not None
    assert found.unique_for_ms == 1500
    assert (
        lonnymq("enqueue", "1", "--priority", "-3", "--cost", "5", "--lane", "slow", "--channel", "p").code
        == 0
    )
    assert lonnymq("enqueue", "1", "--run-at", "2099-12-31T09:00", "--channel", "p").code == 0
    patient, later = queue.messages(channel="p")
    assert (patient.priority, patient.cost, patient.lane) == (-3, 5, "slow")
    assert (later.priority, later.cost, later.lane) == (0, 1, "default")
    assert later.dequeue_at == datetime(2099, 12, 31, 9).astimezone().timestamp() * 1000


def test_one_for_a_task(queue: Queue, lonnymq: Run) -> None:
    assert lonnymq("enqueue", '{"invoice": 7}', "--task", "shop.send").code == 0
    assert lonnymq("enqueue", "--task", "shop.clean").code == 0
    found = [(message.headers["task"], message.payload) for message in queue.dequeue(2)]
    assert found == [("shop.send", {"invoice": 7}), ("shop.clean", {})]


def test_one_too_many(queue: Queue, lonnymq: Run) -> None:
    queue.channel("tiny").set(max_size=1)
    assert lonnymq("enqueue", "1", "--channel", "tiny").code == 0
    done = lonnymq("enqueue", "2", "--channel", "tiny")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("lonnymq: channel 'tiny' is full (nothing was enqueued: try again")
    assert "--max-size" in done.stderr
    assert len(queue.messages()) == 1


WRONG = [
    ([], "there is nothing to enqueue"),
    (["{broken"], "the payload: it is not JSON: Expecting property name"),
    (["text"], "use --text"),
    (["NaN"], "NaN is not a JSON number"),
    (["[" * 100_000], "it is JSON that cannot be read"),
    (["1", "--delay", "1", "--run-at", "2099-12-31"], "--delay and --run-at are both given"),
    (["1", "--priority", "101"], "--priority"),
    (["1", "--cost", "0"], "--cost"),
    (["1", "--lane", ""], "lane"),
    (["1", "--delay", "-1"], "--delay"),
    (["1", "--run-at", "soon"], "'soon' is not a time"),
    (["1", "--header", "novalue"], "--header novalue has no name or no ="),
    (["1", "--header", "=v"], "has no name or no ="),
    (["1", "--task", "send"], "the payload is not an object"),
    (["1", "--max-attempts", "0"], "--max-attempts"),
    (["1", "--max-attempts", "99999999999"], "--max-attempts"),
    (["1", "--channel", ""], "a channel needs a name"),
    (["x" * 1_048_577, "--text"], "1048579 bytes"),
    (["1", "--payloads"], "--payloads is for the lines of a file"),
    (["1", "--file", "-"], "a payload and --file are both given"),
    (["--file", "-", "--text"], "--text is for a payload on the command line"),
    (["--file", "-", "--dedupe-key", "k"], "would create one message"),
    (["--file", "/nowhere/at/all"], "/nowhere/at/all cannot be read: No such file or directory"),
    (["--file", "/"], "/ cannot be read: Is a directory"),
]


def test_wrong_use(queue: Queue, lonnymq: Run) -> None:
    for arguments, says in WRONG:
        done = lonnymq("enqueue", *arguments)
        assert (done.code, done.stdout) == (2, ""), done.stderr
        assert says in done.said
        assert "Traceback" not in done.stderr
    assert queue.messages() == []


def test_a_file(queue: Queue, lonnymq: Run, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_bytes(
        b"\xef\xbb\xbf"
        + lines(
            {"payload": {"invoice": 7}, "channel": "acme", "task": "send", "headers": {"a": 1}},
            {"payload": None, "delay": 600, "dedupe_key": "k", "unique_for": 60, "max_attempts": 2},
            {"payload": "again", "dedupe_key": "k"},
        )
        + b"\r\n  \n"
        + b'{"payload": "urgent", "priority": 3, "cost": 2, "lane": "slow", "channel": null}\r\n'
        + '{"payload": "Zoë", "run_at": "2099-12-31T09:00+01:00"}'.encode()
    )
    done = lonnymq("enqueue", "--file", str(file))
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout == "4 created, 1 duplicates\n"
    [acme, urgent] = queue.messages(status="due")
    assert (acme.channel, acme.headers["task"], acme.headers["a"]) == ("acme", "send", 1)
    assert (urgent.channel, urgent.priority, urgent.cost, urgent.lane) == ("default", 3, 2, "slow")
    [soon, late] = queue.messages(status="scheduled")
    assert (soon.dedupe_key, soon.max_attempts, late.dequeue_at) == ("k", 2, 4102387200000)


def test_what_a_line_does_not_say_is_as_the_options_say(queue: Queue, lonnymq: Run) -> None:
    options = ["--channel", "c", "--delay", "600", "--header", "a=1", "--task", "t", "--max-attempts", "4"]
    options += ["--lane", "slow"]
    stdin = lines(
        {"payload": 1},
        {
            "payload": 2,
            "channel": "d",
            "run_at": "2001-01-01",
            "lane": "l",
            "headers": {"a": "2", "b": 1},
            "task": "u",
        },
    )
    told = lonnymq("enqueue", "--file", "-", "--json", *options, stdin=stdin).record
    assert told == {"created": 2, "duplicates": 0, "full": 0}
    [first, second] = queue.messages()
    assert (first.channel, first.status, first.max_attempts) == ("c", "scheduled", 4)
    assert (first.headers["a"], first.headers["task"]) == ("1", "t")
    assert (second.channel, second.status, second.max_attempts) == ("d", "due", 4)
    assert (first.lane, second.lane) == ("slow", "l")
    assert (second.headers["a"], second.headers["b"], second.headers["task"]) == ("2", 1, "u")


def test_values(queue: Queue, lonnymq: Run) -> None:
    done = lonnymq(
        "enqueue", "--file", "-", "--payloads", "--channel", "c", stdin=lines({"payload": 1}, [2], "three")
    )
    assert done.code == 0
    assert [message.payload for message in queue.dequeue(10)] == [{"payload": 1}, [2], "three"]


def test_an_empty_file(lonnymq: Run) -> None:
    assert lonnymq("enqueue", "--file", "-").stdout.startswith("0 created")


def test_nothing_of_a_file_when_a_channel_is_full(queue: Queue, lonnymq: Run) -> None:
    queue.channel("tiny").set(max_size=1)
    done = lonnymq("enqueue", "--file", "-", "--channel", "tiny", "--payloads", stdin=lines(1, 2, 3))
    assert (done.code, done.stdout) == (1, "")
    assert "channel 'tiny' is full (max_size 1): 2 of 3 messages do not fit" in done.stderr
    assert "--drop-full" in done.stderr
    assert queue.messages() == []


def test_lines_are_left_out_when_that_is_asked_for(queue: Queue, lonnymq: Run) -> None:
    queue.channel("tiny").set(max_size=1)
    file = ["enqueue", "--file", "-", "--channel", "tiny", "--payloads", "--drop-full"]
    done = lonnymq(*file, stdin=lines(1, 2, 3))
    told = "1 created, 0 duplicates, 2 left out: their channel is full\n"
    assert (done.code, done.stdout) == (0, told)
    done = lonnymq(*file, "--json", stdin=lines(4))
    assert json.loads(done.stdout) == {"created": 0, "duplicates": 0, "full": 1}


def test_a_bad_line_is_named_though_its_channel_is_full(queue: Queue, lonnymq: Run) -> None:
    queue.channel("tiny").set(max_size=1)
    file = ["enqueue", "--file", "-", "--channel", "tiny"]
    bad = lines({"payload": 1}, {"payload": 2}, {"payload": 3, "dedupe_key": ""})
    assert "line 3:" in lonnymq(*file, stdin=bad).stderr


BAD = [
    (b'{"payload": 1', "it is not JSON: Expecting ',' delimiter"),
    (b"\xff", "it is not UTF-8"),
    (b'{"payload": NaN}', "NaN is not a JSON number"),
    (b'{"paylod": 1}', 'it is not an object with a payload (write {"payload": ...}, or use --payloads)'),
    (b"7", "it is not an object with a payload"),
    (b'{"payload": 1, "chanel": "a"}', "'chanel' is not known (a line may have payload, channel, delay,"),
    (b'{"payload": 1, "channel": 7}', "channel is not a string"),
    (b'{"payload": 1, "channel": ""}', "a channel needs a name"),
    (b'{"payload": 1, "channel": "\\u0000"}', "NUL"),
    (b'{"payload": 1, "channel": "\\ud800"}', "a lone surrogate"),
    (b'{"payload": 1, "delay": "60"}', "delay is not a number of seconds"),
    (b'{"payload": 1, "delay": true}', "delay is not a number of seconds"),
    (b'{"payload": 1, "delay": -1}', "-1 is negative (give 0 or more seconds)"),
    (b'{"payload": 1, "delay": 1e300}', "LM003|range|time"),
    (b'{"payload": 1, "delay": 1, "run_at": "2099-12-31"}', "both given"),
    (b'{"payload": 1, "run_at": "soon"}', "'soon' is not a time"),
    (b'{"payload": 1, "run_at": 7}', "run_at is not a string with a time"),
    (b'{"payload": 1, "priority": 101}', "a priority of 101"),
    (b'{"payload": 1, "cost": 0}', "a cost of 0"),
    (b'{"payload": 1, "lane": 7}', "lane is not a string"),
    (b'{"payload": 1, "lane": ""}', "lane"),
    (b'{"payload": 1, "priority": 1.5}', "priority is not a whole number"),
    (b'{"payload": 1, "dedupe_key": 7}', "dedupe_key is not a string"),
    (b'{"payload": 1, "dedupe_key": ""}', "key"),
    (b'{"payload": 1, "headers": [1]}', "headers is not an object"),
    (b'{"payload": 1, "headers": {"a": "\\u0000"}}', "contains a NUL character"),
    (b'{"payload": 1, "headers": {"a": "' + b"x" * 70_000 + b'"}}', "headers"),
    (b'{"payload": 1, "max_attempts": 0}', "attempts"),
    (b'{"payload": 1, "max_attempts": 99999999999}', "out of range"),
    (b'{"payload": "' + b"x" * 1_048_576 + b'"}', "1048578 bytes"),
]


def test_a_bad_line_is_named_and_nothing_is_queued(queue: Queue, lonnymq: Run) -> None:
    good = lines(*({"payload": n} for n in range(10)))
    for bad, says in BAD:
        done = lonnymq("enqueue", "--file", "-", stdin=good + b"\n" + bad + b"\n" + good)
        assert (done.code, done.stdout) == (1, ""), (bad[:80], done.stderr)
        assert done.stderr.startswith("lonnymq: line 12: "), (bad[:80], done.stderr)
        assert any(part in done.stderr for part in says.split("|")), (bad[:80], done.stderr)
        assert done.stderr.count("\n") == 1
    assert queue.messages() == []


def test_a_bad_line_is_found_in_any_chunk(queue: Queue, lonnymq: Run) -> None:
    for place in (1, 5_000, 5_001):
        messages: list[object] = [{"payload": n} for n in range(5_001)]
        messages[place - 1] = {"payload": 0, "channel": "c" * 256}
        done = lonnymq("enqueue", "--file", "-", stdin=lines(*messages))
        assert done.code == 1
        assert f"line {place}: the channel name is 256 bytes long" in done.stderr
    assert queue.messages() == []


def test_a_bar_on_a_terminal(dsn: str, queue: Queue, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_bytes(lines(*range(12_000)))
    code, shown = on_terminal(["enqueue", "--file", str(file), "--payloads"], dsn)
    assert code == 0
    assert "messages" in shown
    assert "12,000 created" in shown


@pytest.fixture
def half_loaded(dsn: str, conn: psycopg.Connection) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A load that has sent its first chunk and waits for more lines, and the session that it has open.

    Tests that a shell runs in the background are deaf to Ctrl-C, and so is what they start.
    """
    with subprocess.Popen(
        [
            "env",
            "--default-signal=INT",
            sys.executable,
            "-m",
            "lonnymq",
            "enqueue",
            "--file",
            "-",
            "--payloads",
        ],
        env=environment(dsn),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as started:
        assert started.stdin is not None
        started.stdin.write(lines(*range(6_000)))
        started.stdin.flush()
        deadline = time.monotonic() + 30
        while (
            session := conn.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name = 'lonnymq' AND state = 'idle in transaction'"
                " AND backend_xid IS NOT NULL"
            ).fetchone()
        ) is None:
            assert time.monotonic() < deadline
        yield started, session[0]
        started.kill()


def test_a_load_that_is_interrupted_leaves_nothing(
    half_loaded: tuple[subprocess.Popen[bytes], int], queue: Queue
) -> None:
    load, _ = half_loaded
    load.send_signal(signal.SIGINT)
    out, err = load.communicate(timeout=30)
    assert (load.returncode, out, b"Traceback" in err) == (130, b"", False)
    assert queue.messages() == []


def test_a_load_whose_connection_breaks_leaves_nothing(
    half_loaded: tuple[subprocess.Popen[bytes], int], queue: Queue, conn: psycopg.Connection
) -> None:
    load, session = half_loaded
    conn.execute("SELECT pg_terminate_backend(%s)", [session])
    out, err = load.communicate(timeout=30)
    assert (load.returncode, out, err.count(b"\n")) == (3, b"", 1), err
    # Which of the two depends on whether the server's last words come before the client writes again.
    assert b"terminating connection" in err or b"server closed the connection" in err
    assert queue.messages() == []


MEMORY = """
import resource, sys
from lonnymq.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""


@pytest.mark.slow
def test_many_lines_need_no_more_memory_than_some(dsn: str, tmp_path: Path) -> None:
    def kib(count: int) -> int:
        file = tmp_path / "messages.jsonl"
        with file.open("w") as out:
            out.writelines(f'{{"payload": {{"row": {n}}}, "channel": "c{n % 7}"}}\n' for n in range(count))
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, "enqueue", "--file", str(file)],
            env=environment(dsn) | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"{count:,} created")
        return int(done.stderr)

    assert kib(60_000) - kib(15_000) < 10_000
