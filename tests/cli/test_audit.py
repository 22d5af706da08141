"""lonnymq audit."""

from lonnymq import Queue
from tests.cli.conftest import Run


def test_what_people_did(queue: Queue, lonnymq: Run) -> None:
    none = lonnymq("audit")
    assert (none.code, none.stdout, none.stderr) == (0, "", "Nothing is recorded.\n")
    entry = queue.audit_begin("zoe", "cancel", channel="acme", target="7", details={"reason": "a\nb"})
    assert queue.audit_end(entry, queue.cancel(7))
    queue.audit_begin("ann", "drain")
    head, *rows = (line.split() for line in lonnymq("audit").stdout.splitlines())
    assert head == ["id", "when", "who", "action", "channel", "target", "outcome", "details"]
    assert rows == [
        ["2", "now", "ann", "drain", "unknown"],
        ["1", "now", "zoe", "cancel", "acme", "7", "not_found", '{"reason":', r'"a\nb"}'],
    ]
    [record] = lonnymq("audit", "--channel", "acme", "--json").records
    assert (record["who"], record["outcome"], record["details"]) == ("zoe", "not_found", {"reason": "a\nb"})
    first = lonnymq("audit", "--limit", "1")
    assert "--after 2" in first.stderr
    assert [found["id"] for found in lonnymq("audit", "--after", "2", "--json").records] == [1]
