"""One Spark session and one cluster per process, and the options that reach each test's database.

Data sources run in processes that Spark starts, on the driver's side too, with the environment that Spark was
started with. So each test's database is a libpq service, in a file that is named before Spark starts.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import SparkSession

from lonnymq.spark.sessions.spark_session import session
from tests.spark import quick_java
from tests.spark.cluster import Cluster
from tests.spark.outside_faults import Gate

HERE = Path(__file__).parent
SCHEMA = "lonnymq"
OWN_SPARK_TIMEOUT_S = 600  # starting another Spark takes a minute on a busy machine
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    **quick_java.INTERPRETED,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(OWN_SPARK_TIMEOUT_S))


class Services:
    """A libpq service file, with one service per database."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch(mode=0o600)

    def add(self, dsn: str, name: str | None = None) -> str:
        """Add a service with this address, and return its name."""
        parameters = conninfo_to_dict(dsn)
        name = name or str(parameters["dbname"])
        lines = [f"[{name}]", *(f"{key}={value}" for key, value in parameters.items())]
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
        return name


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Services]:
    path = tmp_path_factory.mktemp("services") / "pg_service.conf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGSERVICEFILE", str(path))
        yield Services(path)


@pytest.fixture(scope="session", autouse=True)
def _quick_java(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    chosen = quick_java.environment(quick_java.cache_of(pytestconfig), tmp_path_factory.mktemp("java"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in chosen.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def spark(services: Services) -> Iterator[SparkSession]:
    running = session("local[2]", **SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def cluster(services: Services, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two workers with one core each, which are two hosts to Spark."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def options(dsn: str, services: Services) -> dict[str, str]:
    """The options of a data source for the test's database: the name of a service, no password."""
    return {"service": services.add(dsn), "schema": SCHEMA}


@pytest.fixture
def gate(dsn: str) -> Iterator[Gate]:
    with Gate(dsn) as running:
        yield running


@pytest.fixture
def gate_options(gate: Gate, services: Services) -> dict[str, str]:
    """Options that connect through the gate."""
    return {"service": services.add(gate.dsn, f"gate_{secrets.token_hex(4)}"), "schema": SCHEMA}
