"""Every public SQL function with odd arguments: a result, or an error of ours; never a hang.

An error also leaves every table as it was, and afterwards the invariants hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import psycopg
import pytest
from hypothesis import strategies as st
from psycopg import sql

from lonnymq.install import read
from lonnymq.install.roles import EXECUTES
from tests.fuzz.filled_queue import Conn, Tables, fill
from tests.invariants import check

PUBLIC = sorted({name for names in EXECUTES.values() for name in names})
OF_POSTGRESQL = {("to_epoch", "0A000")}
"""to_epoch is one cast: what PostgreSQL says about an infinite time is right, and no table is involved."""
RETRY_STATES = {"40001", "40P01"}
"""Errors that ask the caller to run the transaction again, as docs/sql.md says."""

TEXTS = (
    *(
        "",
        " ",
        "a",
        "b",
        "mine",
        "x" * 255,
        "x" * 256,
        "é" * 128,
        "'; --",
        '"',
        "\\",
        "%s %I",
        "{}",
        "{a,NULL}",
    ),
    *(
        "NULL",
        "\x01",
        "\u202e",
        "\U0001f600",
        "[]",
        '{"id": 1}',
        "1:1:",
        "9:1:",
        "1:2:1",
        "waiting",
        "running",
    ),
    *(
        "due",
        "leased",
        "scheduled",
        "name",
        "next",
        "paused",
        "serving",
        "draining",
        "*",
        "(",
        "%",
        "_",
        "a%",
    ),
    *("default", "0123456789abcdef", "e30=", "x" * 100_000),
)
INTEGERS = (0, 1, -1, 2, 7, 100, 500, 1_000, 10_000, 100_001, 2**31 - 1, -(2**31))
BIGINTS = (*INTEGERS, 2**53, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, -(2**63), 1_700_000_000_000)
FLOATS = ("0", "-0", "1", "0.5", "-1", "1e308", "NaN", "Infinity", "-Infinity", "1e-300")
REALS = ("0", "1", "0.5", "-1", "NaN", "Infinity", "-Infinity", "3e38")
NUMERICS = ("0", "1", "-1", "NaN", "Infinity", "1e100", "1e-100", "0.0001", "1000000")
JSONS = (
    *("null", "true", "1", '""', "[]", "{}", '{"a": 1}', '{"task": null}', '{"task": {"a": []}}', '[1, "x"]'),
    *('{"lane": "l", "priority": 5}', '{"batch_id": 99}', '{"priority": 1e99}', '{"cost": "x"}', '{"": ""}'),
    *(
        '{"headers": []}',
        '{"max_attempts": 0.5}',
        "1e400",
        json.dumps({"x": "y" * 70_000}),
        "[" * 500 + "]" * 500,
    ),
)
UUIDS = ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff")
BYTES = ("\\x", "\\x00", "\\xff", "\\x" + "ab" * 1000, "\\x" + "00" * 1_048_577)


@dataclass(frozen=True)
class Known:
    """Ids and tokens that exist."""

    ids: list[int]
    tokens: list[str]

    def values(self, kind: str) -> tuple[str, ...]:
        found: dict[str, tuple[Any, ...]] = {
            "text": TEXTS,
            "bigint": (*BIGINTS, *self.ids),
            "integer": INTEGERS,
            "smallint": (0, 1, -1, 32767, -32768),
            "boolean": ("t", "f"),
            "bytea": BYTES,
            "jsonb": JSONS,
            "uuid": (*UUIDS, *self.tokens),
            "double precision": FLOATS,
            "real": REALS,
            "numeric": NUMERICS,
            "timestamp with time zone": ("now", "infinity", "-infinity", "0001-01-01", "294276-12-31"),
        }
        return tuple(str(value) for value in found[kind])

    def literals(self, kind: str) -> st.SearchStrategy[str | None]:
        """Texts that PostgreSQL reads as values of this type; None is NULL."""
        if not kind.endswith("[]"):
            return st.none() | st.sampled_from(self.values(kind))
        elements = st.lists(st.none() | st.sampled_from(self.values(kind[:-2])), max_size=4)
        return st.one_of(
            st.none(),
            st.just("{}"),
            elements.map(array),
            elements.filter(bool).map(lambda found: f"[5:{4 + len(found)}]={array(found)}"),
            elements.filter(bool).map(lambda found: f"{{{array(found)},{array(found)}}}"),
            elements.filter(bool).map(lambda found: array(found[:1] * 3)),
        )


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def array(elements: list[str | None]) -> str:
    return "{" + ",".join("NULL" if element is None else quoted(element) for element in elements) + "}"


SIGNATURES = """
    SELECT p.proname, ARRAY(
            SELECT format_type(a.type, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY a (type, n)
            ORDER BY a.n),
        p.pronargs - p.pronargdefaults, p.proargnames
    FROM pg_proc p
    WHERE p.pronamespace = current_schema()::REGNAMESPACE AND p.proname = ANY (%s) ORDER BY 1"""


@pytest.fixture
def filled(conn: Conn) -> Iterator[tuple[Conn, Known]]:
    made = fill(conn)
    conn.execute("SET statement_timeout TO '10s'; SET lock_timeout TO '5s'")
    yield conn, Known(made.ids, made.tokens)
    conn.execute("RESET statement_timeout")


def test_the_public_functions_are_those_that_run_as_their_owner(conn: Conn) -> None:
    """So a new one is tried here."""
    rows = conn.execute(
        "SELECT DISTINCT proname FROM pg_proc"
        " WHERE pronamespace = current_schema()::REGNAMESPACE AND prosecdef"
    )
    assert {name for (name,) in rows} | {"to_epoch"} == set(PUBLIC)
    assert set(PUBLIC) <= {function.name for function in read().functions}


@dataclass
class Fuzzed:
    """Calls functions, and collects the SQLSTATEs of errors, and what is wrong."""

    conn: Conn
    known: Known
    tables: Tables
    states: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def call_many(self, examples: int, name: str, types: list[str], required: int, names: list[str]) -> None:
        before: dict[str, Any] | None = self.tables.digest()

        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, phases=[hypothesis.Phase.generate]
        )
        @hypothesis.given(st.data())
        def call(data: st.DataObject) -> None:
            nonlocal before
            given = []
            for n, kind in enumerate(types):
                if n < required or data.draw(st.integers(0, 2)) == 0:
                    value = sql.Literal(data.draw(self.known.literals(kind)))
                    given.append(sql.SQL(f"{{}} => {{}}::{kind}").format(sql.Identifier(names[n]), value))
            query = sql.SQL("SELECT * FROM {}({})").format(sql.Identifier(name), sql.SQL(", ").join(given))
            if not self.is_refused(name, query):
                before = None  # it may have changed something
            elif before is not None and self.tables.digest() != before:
                self.wrong.append(f"a refused call changed a table: {query.as_string(self.conn)[:400]}")

        call()

    def is_refused(self, name: str, query: sql.Composed) -> bool:
        try:
            self.conn.execute(query)
        except psycopg.Error as error:
            state = error.sqlstate or "none"
            self.states.add(state)
            is_ours = state.startswith("LM0") or state in RETRY_STATES
            if not is_ours and (name, state) not in OF_POSTGRESQL:
                message = error.diag.message_primary
                self.wrong.append(f"{state} {message}: {query.as_string(self.conn)[:400]}")
            return True
        return False


@pytest.mark.parametrize(
    "examples",
    [8, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3600)])],
)
def test_odd_arguments(filled: tuple[Conn, Known], examples: int) -> None:
    conn, known = filled
    fuzzed = Fuzzed(conn, known, Tables(conn))
    signatures = conn.execute(SIGNATURES, (PUBLIC,)).fetchall()
    assert len(signatures) >= len(PUBLIC)
    for name, types, required, names in signatures:
        fuzzed.call_many(examples, name, types, required, names)
    assert not fuzzed.wrong, "\n".join(fuzzed.wrong[:20])
    assert {"LM001", "LM005", "LM010", "LM013"} <= fuzzed.states
    check(conn)
