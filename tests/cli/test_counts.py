"""New messages are counted while no consumer runs."""

from lonnymq import Queue
from tests.cli.conftest import Login, Run
from tests.cli.running import run

TOP = ["top", "--once", "--interval", "0.1"]


def test_messages_since_the_last_dispatch_are_counted(queue: Queue, lonnymq: Run) -> None:
    queue.enqueue("later", channel="acme", delay=3600)
    assert queue.dequeue() == []
    queue.enqueue("now", channel="acme")
    assert (lonnymq("stats", "--json").record["waiting"], queue.stats().waiting) == (2, 2)
    queue.enqueue("first", channel="acme", priority=3)
    [listed] = lonnymq("channels", "list", "--json").records
    assert (listed["due"], listed["scheduled"], listed["blocked_by"]) == (2, 1, None)
    queue.enqueue("more", channel="acme")
    assert lonnymq("channels", "show", "acme", "--json").record["due"] == 3
    queue.enqueue("still more", channel="acme")
    [shown] = lonnymq(*TOP, "--json").record["channels"]
    assert (shown["due"], shown["scheduled"]) == (4, 1)


def test_an_observer_that_may_not_dispatch_counts_the_same(login: Login, schema: str, dsn: str) -> None:
    observer = login(f"{schema}_observer")
    with Queue(dsn, schema) as queue:
        queue.enqueue("later", channel="acme", delay=3600)
        assert queue.dequeue() == []
        queue.enqueue("now", channel="acme")
    for arguments in (["stats"], ["channels", "list"], ["channels", "show", "acme"], TOP):
        done = run(*arguments, "--json", "--schema", schema, dsn=observer)
        assert (done.code, done.stderr) == (0, "")
    for address in (observer, dsn):
        assert run("stats", "--json", "--schema", schema, dsn=address).record["waiting"] == 2
