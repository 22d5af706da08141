"""The formats through Spark Connect, to a server that the session starts."""

import re

import psycopg
import pytest

from lonnymq.spark.sessions.spark_session import NEEDED_BY_CONNECT, is_installed
from tests.spark import quick_java
from tests.spark.round_trip import drive
from tests.spark.traffic import finish

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(is_installed(module) for module in NEEDED_BY_CONNECT),
        reason="needs the packages of Spark Connect: pip install 'pyspark[connect]'",
    ),
]


LATE_RELEASE = re.compile(
    r"^\S+ \S+ ERROR ErrorUtils: Spark Connect RPC error during: releaseExecute\..*\n"
    r"org\.apache\.spark\.SparkSQLException: \[INVALID_HANDLE\.SESSION_CLOSED\].*\n"
    r"(?:\s+(?:at|\.\.\.) .*\n|Caused by: .*\n)*",
    re.MULTILINE,
)
"""Spark's client releases results in the background; if it is late, the server has closed the session."""


@pytest.mark.parametrize("ship_code", [pytest.param(False, marks=pytest.mark.long), True])
def test_source_and_sink_run(conn: psycopg.Connection, options: dict[str, str], ship_code: bool) -> None:
    conn.execute("SELECT queue_set(p_history => TRUE, p_history_content => TRUE)")
    finish(conn, "a", [b"x"])
    conf = {"spark.driver.memory": "512m", **quick_java.INTERPRETED}
    seen = drive({"remote": "local[2]", "ship_code": ship_code, **conf}, options)
    assert seen["waiting"] == list(range(40))
    assert seen["finished"] == ["x"]
    assert LATE_RELEASE.sub("", seen["stderr"]) == ""
