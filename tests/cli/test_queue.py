"""lonnymq queue."""

import pytest

from lonnymq import Queue
from tests.cli.conftest import Run
from tests.cli.running import Done


def fields(done: Done) -> dict[str, str]:
    assert (done.code, done.stderr) == (0, "")
    pairs = (line.partition("  ") for line in done.stdout.splitlines())
    return {name: value.strip() for name, _, value in pairs}


DEFAULT = {
    "paused": "no",
    "max concurrency": "no limit",
    "max attempts": "5",
    "lease": "30 s",
    "longest lease": "86,400 s (24 h)",
    "largest payload": "1,048,576 bytes",
    "history": "no",
    "batches kept": "604,800 s (7 d)",
    "audit kept": "7,776,000 s (90 d)",
    "notify": "yes",
    "channel max concurrency": "no limit",
    "channel rate": "no limit",
    "channel burst": "1",
    "channel max size": "no limit",
}


def test_the_default_settings(lonnymq: Run) -> None:
    assert fields(lonnymq("queue", "show")) == DEFAULT


def test_each_option_changes_its_setting_and_no_other(queue: Queue, lonnymq: Run) -> None:
    given = {
        "max_concurrency": ("--max-concurrency", "1234", 1234),
        "max_attempts": ("--max-attempts", "3", 3),
        "lease_max_ms": ("--lease-max", "7200", 7_200_000),
        "lease_ms": ("--lease", "1.5", 1_500),
        "content_max_bytes": ("--content-max-bytes", "2000", 2_000),
        "history_keep_ms": ("--history-keep", "604800", 604_800_000),
        "batch_keep_ms": ("--batch-keep", "7200", 7_200_000),
        "audit_keep_ms": ("--audit-keep", "10800", 10_800_000),
        "channel_max_concurrency": ("--channel-max-concurrency", "4", 4),
        "channel_rate": ("--channel-rate", "100/min", "100/min"),
        "channel_burst": ("--channel-burst", "50", 50),
        "channel_max_size": ("--channel-max-size", "2000", 2_000),
    }
    expected = lonnymq("queue", "show", "--json").record
    for name, (option, value, means) in given.items():
        expected[name] = means
        assert lonnymq("queue", "set", option, value, "--json").record == expected
    for name in ("paused", "history", "history_content", "notify"):
        expected[name] = not expected[name]
        turns = {"paused": "--paused", "notify": "--no-notify"}.get(name, f"--{name.replace('_', '-')}")
        assert lonnymq("queue", "set", turns, "--json").record == expected
    assert lonnymq("queue", "show", "--json").record == expected
    assert queue.settings().lease_ms == 1_500
    assert fields(lonnymq("queue", "show")) == {
        "paused": "yes",
        "max concurrency": "1,234",
        "max attempts": "3",
        "lease": "1.5 s",
        "longest lease": "7,200 s (2 h)",
        "largest payload": "2,000 bytes",
        "history": "kept for 604,800 s (7 d), with payloads",
        "batches kept": "7,200 s (2 h)",
        "audit kept": "10,800 s (3 h)",
        "notify": "no",
        "channel max concurrency": "4",
        "channel rate": "100/min",
        "channel burst": "50",
        "channel max size": "2,000",
    }


def test_switching_settings_on_and_off(lonnymq: Run) -> None:
    on = ["--max-concurrency", "5", "--paused", "--history", "--history-content", "--history-keep", "0"]
    shown = fields(lonnymq("queue", "set", *on, "--no-notify"))
    assert (shown["history"], shown["paused"]) == ("kept forever, with payloads", "yes")
    shown = fields(lonnymq("queue", "set", "--no-history-content"))
    assert shown["history"] == "kept forever, without payloads"
    off = ["--max-concurrency", "0", "--not-paused", "--no-history", "--notify"]
    assert fields(lonnymq("queue", "set", *off)) == DEFAULT


def test_a_paused_queue_serves_nothing(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue(1)
    lonnymq("queue", "set", "--paused")
    assert queue.dequeue() == []
    lonnymq("queue", "set", "--not-paused")
    assert len(queue.dequeue()) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "no setting given (`lonnymq queue set --help` lists them)"),
        (["--lease", "7200", "--lease-max", "3600"], "a default lease of 7200000 ms is not possible"),
        (["--max-concurrency", "10001"], "Allow 1 to 10,000 at once, or 0 for no limit"),
        (["--channel-max-concurrency", "10001"], "a channel_max_concurrency of 10001 is out of range"),
        (["--channel-rate", "often"], "'often' is not a rate (give one such as '20/s'"),
        (["--history-keep", "1"], "Keep it for 3,600,000 (an hour) to"),
        (["--max-attempts", "0"], "'--max-attempts': Input should be greater than or equal to 1"),
        (["--lease", "soon"], "'--lease': Input should be a valid number"),
    ],
)
def test_what_it_does_not_take(lonnymq: Run, options: list[str], says: str) -> None:
    done = lonnymq("queue", "set", *options, "--json")
    assert (done.code, done.stdout) == (2, "")
    assert says in done.said
    assert fields(lonnymq("queue", "show")) == DEFAULT
