"""The checker of ends accepts a correct history and reports each kind of damage."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.faults.ends import EndChecker
from tests.faults.history import (
    Act,
    Create,
    Dead,
    Delivery,
    Finish,
    Finished,
    History,
    HistoryChecker,
    Outcome,
    Pause,
)

ONE, TWO = UUID(int=1), UUID(int=2)
KEEP_MS = 100
SIZES = {"small": 1}


def create(id_: int, at: int, channel: str = "c", **changes: object) -> Create:
    whole = Create(
        f"m{id_}".encode(), channel, Outcome.OK, id_, called_at=at, answered_at=at + 2, done_at=at + 4
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def row(id_: int, outcome: str, at: int, channel: str = "c", **changes: object) -> Finished:
    whole = Finished(id_, outcome, channel, at, 1, None, f"m{id_}".encode())
    return replace(whole, **changes)  # type: ignore[arg-type]


def finish(id_: int, result: str, at: int, kind: str = "complete", token: UUID = ONE) -> Finish:
    return Finish(kind, id_, token, result, Outcome.OK, at - 2, at + 2)


def act(kind: str, id_: int, result: str, at: int, **changes: object) -> Act:
    return replace(Act(kind, id_, result, at - 2, at + 2), **changes)  # type: ignore[arg-type]


def delivery(id_: int, token: UUID, at: int, channel: str = "c") -> Delivery:
    content = f"m{id_}".encode()
    return Delivery(
        "w", at, 0, id_, channel, content, None, None, 1, token, at + 5000, 5000, Outcome.OK, at, at + 5
    )


def clean() -> tuple[History, list[Finished]]:
    """A history of 13 messages that breaks no rule.

    1 is completed and its key is kept. 2 takes the key later and waits. 3 is cancelled at once, 4 while it is
    leased. 5 dies, is retried and completed. 6 dies and stays dead. 7 is marked as cancelled, and its lease
    runs out. 8 dies and is discarded. 9 is rolled back. 10 fills a channel, 11 is created after it is gone.
    12 dies and is retried by dead_retry_all. 13 is deleted with its channel.
    """
    history = History(
        creates=[
            create(1, 1000, dedupe_key="k"),
            create(0, 1250, result="duplicate", outcome=Outcome.FAIL, id=None, holder=1, dedupe_key="k"),
            create(2, 1400, dedupe_key="k"),
            create(3, 1000),
            create(4, 1000),
            create(5, 1000, max_attempts=1),
            create(6, 1000, max_attempts=1),
            create(7, 1000),
            create(8, 1000, max_attempts=1),
            create(9, 1000, outcome=Outcome.FAIL),
            create(10, 1000, "small"),
            create(0, 1100, "small", result="full", outcome=Outcome.FAIL, id=None),
            create(11, 1300, "small"),
            create(12, 1000, max_attempts=1),
            create(13, 1000, "doomed"),
        ],
        deliveries=[
            *(delivery(id_, ONE, 1100) for id_ in (1, 4, 5, 6, 7, 8, 12)),
            delivery(5, TWO, 1250),
            delivery(12, TWO, 1250),
        ],
        finishes=[
            finish(1, "completed", 1200),
            finish(4, "cancelled", 1200),
            *(finish(id_, "dead", 1150, "fail") for id_ in (5, 6, 8, 12)),
            finish(5, "completed", 1300, token=TWO),
            finish(12, "completed", 1300, token=TWO),
        ],
        acts=[
            act("cancel", 3, "cancelled", 1050),
            act("cancel", 4, "marked", 1150),
            act("cancel", 7, "marked", 1150),
            act("cancel", 10, "cancelled", 1200),
            act("retry", 5, "retried", 1200),
            act("discard", 8, "discarded", 1200),
            act("retry all", 0, "", 1200, channel="c", count=1),
            act("delete", 0, "deleted", 1200, channel="doomed", count=1),
        ],
    )
    rows = [
        row(1, "completed", 1200, dedupe_key="k"),
        row(3, "cancelled", 1050),
        row(4, "cancelled", 1200),
        row(5, "dead", 1150),
        row(5, "completed", 1300),
        row(6, "dead", 1150),
        row(7, "cancelled", 6200),
        row(8, "dead", 1150),
        row(10, "cancelled", 1200, "small"),
        row(12, "dead", 1150),
        row(12, "completed", 1300),
        row(13, "cancelled", 1200, "doomed"),
    ]
    return history, rows


def violations(
    history: History, rows: list[Finished], *, stored: tuple[bytes, ...] = (b"m2", b"m11"), served: int = 9
) -> list[str]:
    dead = [Dead(6, 1, 1, b"m6")]
    checker = EndChecker(
        history, rows, stored=stored, dead=dead, keep_ms=KEEP_MS, sizes=SIZES, served={"c": served}
    )
    found = HistoryChecker(history, stored=stored, dead=dead, queue_limit=10, finished=rows).violations()
    return checker.violations() + found


def breaks_only(found: list[str], rule: str) -> bool:
    return bool(found) and all(broken.startswith(rule) for broken in found)


def test_a_clean_history_passes() -> None:
    assert violations(*clean()) == []


@pytest.mark.parametrize("index", range(12))
def test_a_missing_row(index: int) -> None:
    history, rows = clean()
    del rows[index]
    assert any(broken.startswith("history:") for broken in violations(history, rows))


@pytest.mark.parametrize("index", range(12))
def test_a_duplicate_row(index: int) -> None:
    history, rows = clean()
    rows.append(rows[index])
    assert any(broken.startswith("history:") for broken in violations(history, rows))


@pytest.mark.parametrize(
    ("index", "changes"),
    [
        (0, {"outcome": "cancelled"}),
        (0, {"finished_at": 1190}),
        (0, {"dedupe_key": None}),
        (1, {"channel": "d"}),
        (2, {"outcome": "completed"}),
        (3, {"outcome": "cancelled"}),
        (5, {"content": b"m5"}),
        (11, {"finished_at": 1190}),
    ],
)
def test_a_wrong_row(index: int, changes: dict[str, object]) -> None:
    history, rows = clean()
    rows[index] = replace(rows[index], **changes)  # type: ignore[arg-type]
    assert any(broken.startswith("history:") for broken in violations(history, rows))


def test_a_row_for_a_message_that_was_rolled_back() -> None:
    history, rows = clean()
    rows.append(row(9, "dead", 1150))
    assert any(broken.startswith("2:") for broken in violations(history, rows))


@pytest.mark.parametrize("stored", [(b"m11",), (b"m2", b"m11", b"m3"), (b"m2", b"m11", b"m6")])
def test_a_message_without_an_end_or_with_two(stored: tuple[bytes, ...]) -> None:
    assert any(broken.startswith("history:") for broken in violations(*clean(), stored=stored))


@pytest.mark.parametrize("at", [1100, 1250])
def test_a_key_that_is_taken_while_it_is_held(at: int) -> None:
    """While its message exists, and while the key is kept afterwards."""
    history, rows = clean()
    history.creates[2] = create(2, at, dedupe_key="k")
    assert breaks_only(violations(history, rows), "15:")


def test_a_key_that_is_taken_while_its_message_is_retried() -> None:
    history, rows = clean()
    for index, id_ in ((5, 5), (13, 12)):
        history.creates[index] = replace(history.creates[index], id=id_, dedupe_key="other")
    rows = [replace(r, dedupe_key="other") if r.id in {5, 12} else r for r in rows]
    history.acts.append(act("retry", 12, "retried", 1230))
    history.acts = [a for a in history.acts if a.kind != "retry all"]
    assert any(broken.startswith("15:") for broken in violations(history, rows))


def test_a_key_that_may_have_been_free_is_no_violation() -> None:
    history, rows = clean()
    history.creates[2] = create(2, 1299, dedupe_key="k")
    assert violations(history, rows) == []


@pytest.mark.parametrize(("holder", "at"), [(1, 1350), (3, 1250), (99, 1250)])
def test_a_duplicate_of_a_message_without_the_key(holder: int, at: int) -> None:
    """The key of the message is free by now, or the message never had it."""
    history, rows = clean()
    history.creates[1] = replace(history.creates[1], holder=holder, called_at=at, answered_at=at + 1)
    assert breaks_only(violations(history, rows), "15:")


def test_a_channel_that_holds_too_much() -> None:
    history, rows = clean()
    history.creates[12] = create(11, 1150, "small")
    assert breaks_only(violations(history, rows), "size:")


def test_a_channel_that_is_reported_full_with_room_left() -> None:
    history, rows = clean()
    history.creates[11] = replace(history.creates[11], called_at=1250, answered_at=1252)
    assert breaks_only(violations(history, rows), "size:")


def test_more_leases_than_the_queue_allows() -> None:
    history, rows = clean()
    history.creates += [create(id_, 1000, f"d{id_}") for id_ in range(20, 31)]
    history.deliveries += [delivery(id_, ONE, 1100, f"d{id_}") for id_ in range(20, 31)]
    stored = (b"m2", b"m11", *(f"m{id_}".encode() for id_ in range(20, 31)))
    assert breaks_only(violations(history, rows, stored=stored), "7:")


def test_leases_that_ended_in_the_history_do_not_count() -> None:
    """Three leases ended with their channel before seven began: never more than ten run at a time."""
    history, rows = clean()
    for ids, at in ((range(20, 23), 1100), (range(40, 47), 1210)):
        history.creates += [create(id_, 1000, "doomed") for id_ in ids]
        history.deliveries += [delivery(id_, ONE, at, "doomed") for id_ in ids]
    rows += [row(id_, "cancelled", 1200, "doomed") for id_ in range(20, 23)]
    stored = (b"m2", b"m11", *(f"m{id_}".encode() for id_ in range(40, 47)))
    assert violations(history, rows, stored=stored) == []


@pytest.mark.parametrize("served", [8, 10])
def test_a_count_that_drifted(served: int) -> None:
    assert breaks_only(violations(*clean(), served=served), "counts:")


def test_a_release_while_the_queue_was_paused() -> None:
    history, rows = clean()
    history.pauses.append(Pause(None, 1090, 1120))
    assert breaks_only(violations(history, rows), "paused:")


@pytest.mark.parametrize("result", ["completed", "extended", "retried"])
def test_a_worker_that_does_not_learn_that_its_message_was_cancelled(result: str) -> None:
    history, rows = clean()
    kind = {"completed": "complete", "extended": "extend", "retried": "release"}[result]
    history.finishes.append(finish(7, result, 1160, kind))
    assert any(broken.startswith("cancelled:") for broken in violations(history, rows))


@pytest.mark.parametrize("id_", [3, 7])
def test_a_message_that_is_delivered_after_it_was_cancelled(id_: int) -> None:
    history, rows = clean()
    history.deliveries.append(delivery(id_, TWO, 1160))
    assert any(broken.startswith("cancelled:") for broken in violations(history, rows))


def test_a_finding_of_an_auditor() -> None:
    history, rows = clean()
    history.audits.append("size: ...")
    assert violations(history, rows) == ["audit: size: ..."]


def test_more_retries_than_deaths() -> None:
    history, rows = clean()
    history.acts.append(act("retry", 6, "retried", 1300))
    assert any("retried 1 times" in broken for broken in violations(history, rows))
