"""SQLSTATEs and their error classes."""

import pickle
import re
from pathlib import Path

import pytest

from lonnymq.cli.failure import sentence
from lonnymq.errors import DatabaseUnreachable, LonnyMQError, RetryTransaction
from lonnymq.server_errors import BY_SQLSTATE, from_sqlstate, in_python

ROOT = Path(__file__).parents[2]


def test_every_sqlstate_that_is_raised_has_a_class_and_is_documented() -> None:
    raised = set()
    for file in (ROOT / "src" / "lonnymq").rglob("*"):
        if file.suffix in {".sql", ".py"} and file.name != "errors.py":
            raised |= set(re.findall(r"'(LM\d{3})'", file.read_text()))
    ours = {state for state in BY_SQLSTATE if state.startswith("LM")}
    assert raised <= ours
    contract = (ROOT / "docs" / "sql.md").read_text()
    assert all(state in contract for state in raised if not "LM101" < state < "LM104")


@pytest.mark.parametrize("state", ["40P01", "40001"])
def test_a_serialization_failure_says_to_run_the_transaction_again(state: str) -> None:
    error = from_sqlstate(state, "deadlock detected", "See server log for query details.")
    assert isinstance(error, RetryTransaction)
    assert str(error) == "deadlock detected (run the transaction again)"


def test_the_text_has_the_hint() -> None:
    assert str(LonnyMQError("batch 1 is closed")) == "batch 1 is closed"
    assert str(LonnyMQError("batch 1 is closed", "open another")) == "batch 1 is closed (open another)"
    assert str(LonnyMQError("batch 1 is closed", "Open another.")) == "batch 1 is closed. Open another."


def test_on_the_command_line_it_is_one_line() -> None:
    error = DatabaseUnreachable("Connection refused\n\tIs the server running?", "check the address")
    assert sentence(error) == "Connection refused. Is the server running? (check the address)"


def test_other_sqlstates_have_no_class() -> None:
    assert from_sqlstate("23505", "duplicate key") is None
    assert from_sqlstate(None, "") is None


@pytest.mark.parametrize(
    ("sql", "python"),
    [
        ("p_paused => TRUE stops a channel.", "paused=True stops a channel."),
        (
            "Give p_unique_while => 'running' or p_unique_for_ms.",
            "Give unique_while='running' or unique_for.",
        ),
        ("Give p_burst, or name it in p_inherit.", "Give burst, or name it in inherit."),
        ("Give 1 to 5 ms (lease_max_ms).", "Give 1 to 5 ms (lease_max_ms)."),
    ],
)
def test_hints_use_the_names_of_python(sql: str, python: str) -> None:
    assert in_python(sql) == python
    error = from_sqlstate("LM007", "channel 'p_acme' is full", sql)
    assert error is not None
    assert (error.message, error.hint) == ("channel 'p_acme' is full", python)


@pytest.mark.parametrize("state", BY_SQLSTATE)
def test_errors_survive_a_process_boundary(state: str) -> None:
    error = from_sqlstate(state, "message", "hint")
    assert isinstance(error, LonnyMQError)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again)) == (type(error), str(error))
