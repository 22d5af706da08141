"""The policy of a channel at any time, from the log of policies."""

import doctest
from datetime import UTC, datetime
from typing import Any

import pytest

from lonnymq.errors import InvalidArgument
from lonnymq.rules import policy_log
from lonnymq.rules.policy_log import BEGINNING, EffectivePolicy, PolicyLog, QueuePolicy


def logged(at: Any, scope: str = "channel", channel: str | None = "acme", **values: Any) -> dict[str, Any]:
    """A row, as the view `policies` has it: what is not given is NULL."""
    nothing = dict.fromkeys(("max_concurrency", "release_interval_us", "burst", "max_size", "weight"))
    row = {"xid": 1, "id": 1, "at": at, "scope": scope, "channel": channel, "paused": False}
    return {**row, "is_deleted": False, **nothing, **values}


def test_the_examples_in_the_code() -> None:
    failed, tried = doctest.testmod(policy_log)
    assert (failed, tried > 0) == (0, True)


def test_policies_over_time() -> None:
    """The rows come in any order. A channel inherits what it does not set, 0 is no limit, and after
    `is_deleted` it has nothing of its own.
    """
    log = PolicyLog.of(
        [
            logged(40, is_deleted=True),
            logged(30, max_concurrency=0, weight=2.0, paused=True, id=2),
            logged(30, max_concurrency=9, id=1),
            logged(10, max_concurrency=3),
            logged(20, "default", None, max_concurrency=5, release_interval_us=1000, burst=7, max_size=100),
            logged(50, "default", None),
            logged(15, "queue", None, max_concurrency=64),
            logged(25, "queue", None, paused=True),
        ]
    )
    inherited: dict[str, Any] = {"release_interval_us": 1000, "burst": 7, "max_size": 100}
    assert log.changes("acme") == [
        (BEGINNING, EffectivePolicy()),
        (10, EffectivePolicy(max_concurrency=3)),
        (20, EffectivePolicy(max_concurrency=3, **inherited)),
        (30, EffectivePolicy(max_concurrency=None, paused=True, weight=2.0, **inherited)),
        (40, EffectivePolicy(max_concurrency=5, **inherited)),
        (50, EffectivePolicy()),
    ]
    assert log.changes("other") == [
        (BEGINNING, EffectivePolicy()),
        (20, EffectivePolicy(max_concurrency=5, **inherited)),
        (50, EffectivePolicy()),
    ]
    assert [log.at("acme", at).max_concurrency for at in (9, 10, 29, 30, 49)] == [None, 3, 3, None, 5]
    assert log.queue_changes() == [
        (BEGINNING, QueuePolicy()),
        (15, QueuePolicy(max_concurrency=64)),
        (25, QueuePolicy(paused=True)),
    ]


def test_times_can_be_datetimes() -> None:
    log = PolicyLog.of([logged(datetime(2030, 1, 1, tzinfo=UTC), max_size=1)])
    assert log.changes("acme")[1] == (1_893_456_000_000, EffectivePolicy(max_size=1))
    assert PolicyLog.of([]).at("acme", 5) == EffectivePolicy()


def test_an_unknown_scope() -> None:
    with pytest.raises(InvalidArgument, match="'tenant' is not a scope"):
        PolicyLog.of([logged(1, "tenant")])
