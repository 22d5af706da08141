"""The checker of histories accepts a correct one and reports each kind of damage by its invariant."""

from dataclasses import replace
from uuid import UUID

import pytest

from tests.faults.history import (
    Create,
    Dead,
    Delivery,
    Finish,
    History,
    HistoryChecker,
    Outcome,
    Pause,
    Policy,
)

ONE, TWO, THREE = (UUID(int=i) for i in (1, 2, 3))
POLICIES = {"c": Policy(max_concurrency=1, release_interval_ms=50)}


def delivery(id_: int, token: UUID, at: int, **changes: object) -> Delivery:
    content = f"m{id_}".encode()
    whole = Delivery(
        "w", at, 0, id_, "c", content, None, None, 1, token, at + 100, 100, Outcome.OK, at, at + 5
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def clean() -> History:
    """Message 1 expires and is taken over, 2 is released and completed, 3 was rolled back, 4 is poison."""
    return History(
        creates=[
            Create(b"m1", "c", Outcome.OK, 1, dequeue_at=900),
            Create(b"m2", "c", Outcome.OK, 2, dequeue_at=1200),
            Create(b"m3", "c", Outcome.FAIL, 3),
            Create(b"m4", "p", Outcome.OK, 4, max_attempts=1),
            Create(b"m5", "c", Outcome.OK, 5),
        ],
        deliveries=[
            delivery(1, ONE, 1000),
            delivery(1, TWO, 1101, attempts=2),
            delivery(2, ONE, 1210),
            delivery(2, TWO, 1400, state=b"s"),
            delivery(4, ONE, 1000, channel="p"),
        ],
        finishes=[
            Finish("complete", 1, TWO, "completed", Outcome.OK, 1150, 1152),
            Finish("complete", 1, ONE, "not_found", Outcome.OK, 1180, 1182),
            Finish("extend", 2, ONE, "extended", Outcome.OK, 1220, 1222, lease_end_at=1350),
            Finish("release", 2, ONE, "retried", Outcome.OK, 1230, 1232, dequeue_at=1390, state=b"s"),
            Finish("complete", 2, TWO, "completed", Outcome.OK, 1410, 1412),
            Finish("complete", 2, TWO, "not_found", Outcome.OK, 1420, 1422),
            Finish("fail", 4, ONE, "dead", Outcome.OK, 1010, 1012),
        ],
        pauses=[Pause("c", 1600, 1700)],
    )


def violations(history: History, dead_attempts: int = 1, stored: tuple[bytes, ...] = (b"m5",)) -> list[str]:
    dead = [Dead(4, dead_attempts, 1, b"m4")]
    return HistoryChecker(history, stored=stored, dead=dead, policies=POLICIES).violations()


def test_a_clean_history_passes() -> None:
    assert violations(clean()) == []


@pytest.mark.parametrize(
    ("number", "added"),
    [
        ("2", delivery(3, THREE, 2000)),
        ("3", delivery(9, THREE, 2000, content=b"whose?")),
        ("3", delivery(5, THREE, 2000, headers={"a": 1})),
        ("3", delivery(5, THREE, 2000, state=b"never given")),
        ("4", delivery(1, TWO, 2000, attempts=2)),
        ("5", delivery(1, THREE, 2000, attempts=3)),
        ("7", delivery(5, THREE, 1110, done_at=1111)),
        ("10", delivery(5, THREE, 1440)),
        ("11", delivery(2, THREE, 1000, place=-1, call=1000, attempts=0)),
        ("14", delivery(4, THREE, 2000, channel="p", attempts=2)),
        ("paused", delivery(5, THREE, 1650)),
    ],
)
def test_a_delivery_that_breaks_an_invariant(number: str, added: Delivery) -> None:
    history = clean()
    history.deliveries.append(added)
    assert any(v.startswith(f"{number}:") for v in violations(history)), violations(history)


@pytest.mark.parametrize(
    ("number", "added"),
    [
        ("1", Finish("complete", 5, THREE, "completed", Outcome.OK, 3000, 3001)),
        ("5", Finish("complete", 2, ONE, "completed", Outcome.OK, 3000, 3001)),
        ("5", Finish("complete", 5, THREE, "completed", Outcome.OK, 3000, 3001)),
        ("5", Finish("extend", 1, ONE, "extended", Outcome.OK, 1120, 1121)),
        ("5", Finish("extend", 1, ONE, "lost", Outcome.OK, 1050, 1051)),
        ("6", Finish("complete", 1, TWO, "lost", Outcome.OK, 3000, 3001)),
    ],
)
def test_a_result_that_breaks_an_invariant(number: str, added: Finish) -> None:
    history = clean()
    history.finishes.append(added)
    assert any(v.startswith(f"{number}:") for v in violations(history)), violations(history)


def test_a_message_that_vanished() -> None:
    assert [v[:2] for v in violations(clean(), stored=())] == ["1:"]


def test_a_message_taken_over_before_its_lease_ended() -> None:
    history = clean()
    history.deliveries[1] = delivery(1, TWO, 1060, attempts=2)
    assert any(v.startswith("4:") for v in violations(history))


def test_a_message_released_before_its_time() -> None:
    history = clean()
    history.finishes[3] = replace(history.finishes[3], dequeue_at=1401)
    assert [v[:2] for v in violations(history)] == ["9:"]


def test_a_dead_letter_before_the_limit() -> None:
    assert any(v.startswith("14:") for v in violations(clean(), dead_attempts=0))


def test_a_deadlock() -> None:
    history = clean()
    history.deadlocks = 1
    assert violations(history) == ["1 deadlocks"]


def test_an_unknown_outcome_is_no_violation() -> None:
    history = clean()
    history.finishes[4] = replace(history.finishes[4], outcome=Outcome.UNKNOWN)
    del history.finishes[5]
    assert violations(history) == []
