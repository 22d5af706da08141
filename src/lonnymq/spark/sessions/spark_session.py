"""`session`: a Spark session on this machine, on a cluster, or through Spark Connect."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, overload

from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.spark.sessions.launch import (
    is_local,
    java_environment,
    pin_python,
    spark_settings,
    with_task_retries,
)
from lonnymq.spark.sessions.ship_package import is_connect, ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Setting: TypeAlias = "str | bool | float"

DEFAULT_MASTER = "local[*]"
NEEDED_BY_CONNECT = ("grpc", "grpc_status", "google.rpc", "zstandard")


class SessionConflict(LonnyMQError):
    """This process already has a session with another master or other settings."""


class ConnectMissing(LonnyMQError, ImportError):
    """Spark Connect needs packages that are not installed."""


# This overload lets type checkers accept `**{"spark.driver.memory": "4g"}`: they cannot see its names.
@overload
def session(master: str | None = ..., app_name: str = ..., **conf: Setting) -> SparkSession: ...


@overload
def session(
    master: str | None = ...,
    app_name: str = ...,
    *,
    remote: str | None = ...,
    ship_code: bool = ...,
    **conf: Setting,
) -> SparkSession: ...


def session(  # type: ignore[misc]
    master: str | None = None,
    app_name: str = "lonnymq",
    *,
    remote: str | None = None,
    ship_code: bool = False,
    **conf: Setting,
) -> SparkSession:
    """Return the session of this process, or start one: on `master`, or on all cores of this machine.

    `remote` is an address of Spark Connect instead: sc://host, or local[2] to start a server as well.
    `ship_code` sends this package to executors that do not have it.
    `conf` has Spark's own names: `session(**{"spark.driver.memory": "4g"})`.
    """
    given = {name: _as_text(value) for name, value in conf.items()}
    _check_arguments(given, master, remote)
    spark = _running()
    if spark is not None:
        _adjust(spark, master, remote, given)
    elif remote is None:
        spark = _start(master, {"spark.app.name": app_name} | given)
    else:
        spark = _connect(remote, given)
    if ship_code:
        ship(spark)
    return spark


def _start(master: str | None, given: Mapping[str, str]) -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit has already started Java, with a master.
        return _get_or_create(given if master is None else {**given, "spark.master": master})
    master = master or DEFAULT_MASTER
    pin_python(master)
    with java_environment(master):
        return _get_or_create({"spark.master": with_task_retries(master)} | spark_settings(master, given))


def _connect(remote: str, given: Mapping[str, str]) -> SparkSession:
    _require_connect()
    if not is_local(remote):
        return _get_or_create({"spark.remote": remote, **given})
    pin_python(remote)
    with java_environment(remote), warnings.catch_warnings():
        # The client tries to set them again on the server, which was started with them.
        warnings.filterwarnings("ignore", r"Failed to set spark\.[\s\S]*CANNOT_MODIFY_CONFIG", UserWarning)
        return _get_or_create({"spark.remote": with_task_retries(remote)} | spark_settings(remote, given))


def _get_or_create(chosen: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession.builder.config(map=dict(chosen)).getOrCreate()


def _running() -> SparkSession | None:
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote

    if not is_remote() and SparkContext._active_spark_context is None:  # noqa: SLF001
        return None
    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        return None


def _adjust(running: SparkSession, master: str | None, remote: str | None, given: Mapping[str, str]) -> None:
    """Change the settings that can still be changed; raise SessionConflict for the others."""
    its_master = None if is_connect(running) else running.sparkContext.master
    if master is not None and with_task_retries(master) != its_master:
        raise _conflict(f"runs on {its_master or 'Spark Connect'}, not on {master}")
    if remote is not None and its_master is not None:
        raise _conflict(f"runs on {its_master}, and not through Spark Connect")
    for name, value in given.items():
        if running.conf.get(name, None) == value:
            continue
        if not running.conf.isModifiable(name):
            raise _conflict(f"has another value of {name}, which can be set only at the start")
        running.conf.set(name, value)


def _conflict(how: str) -> SessionConflict:
    return SessionConflict(
        f"the running session of this process {how}", "call its stop() first, or use it as it is"
    )


def _require_connect() -> None:
    missing = [name for name in NEEDED_BY_CONNECT if not is_installed(name)]
    if missing:
        raise ConnectMissing(
            f"Spark Connect needs packages that are not installed: {', '.join(missing)}",
            "pip install 'pyspark[connect]'",
        )


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _check_arguments(given: Mapping[str, str], master: str | None, remote: str | None) -> None:
    for name in given:
        if not name.startswith("spark."):
            raise InvalidArgument(
                f"{name} is not a setting of Spark", "their names are like spark.driver.memory"
            )
    if master is not None and remote is not None:
        raise InvalidArgument("master and remote were both given", "give one of them")


def _as_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
