"""The end of `lonnymq demo`: an archive and a report of what the demo did."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lonnymq import demo
from lonnymq.demo import DemoTenant
from lonnymq.spark import archive
from tests.cli.running import run

TENANTS = (
    DemoTenant("megacorp", backlog=300),
    DemoTenant("pharmacy", backlog=10, urgent_rate=20),
    DemoTenant("startup", backlog=10, failing=3),
    DemoTenant("hotel", rate=20),
)


@dataclass(frozen=True)
class RunningServer:
    address: str

    def dsn(self) -> str:
        return self.address


def test_its_result_and_its_report_with_spark(
    spark: SparkSession,
    dsn: str,
    options: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With few messages, on the server and with the session of the tests, which are not stopped.

    tests/e2e/test_demo.py runs it as users do, if --long is given.
    """

    @contextmanager
    def running_server() -> Iterator[RunningServer]:
        yield RunningServer(dsn)

    def archive_of(spark: SparkSession, lake: str, given: dict[str, str]) -> object:
        """As a Spark that was started before the address was known."""
        assert os.environ[given["dsnEnv"]] == dsn
        return archive(spark, lake, options)

    monkeypatch.setattr("lonnymq.spark.archive", archive_of)
    monkeypatch.setattr(demo, "temporary_server", running_server)
    monkeypatch.setattr(demo, "run", functools.partial(demo.run, tenants=TENANTS))
    monkeypatch.setattr("lonnymq.cli.demo_command.FAST_START", {})
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shown = run("demo", "--json", env={"PGSERVICEFILE": os.environ["PGSERVICEFILE"]}).record
    assert {tenant["channel"] for tenant in shown["tenants"]} == {tenant.channel for tenant in TENANTS}
    counted = sum(tenant["completed"] + tenant["dead"] for tenant in shown["tenants"])
    assert shown["messages"] == counted > 320
    assert DeltaTable(f"{shown['lake']}/history").to_pyarrow_table().num_rows == shown["messages"]
    page = Path(shown["report"]).read_text(encoding="utf-8")
    assert all(tenant.channel in page for tenant in TENANTS)
    assert [path.name for path in tmp_path.iterdir()] == [Path(shown["report"]).parent.name]
