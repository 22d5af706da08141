"""A Spark session that just works: on this machine, on a cluster, or through Spark Connect."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, overload

from lonnymq.errors import InvalidArgument, LonnyMQError
from lonnymq.spark.sessions.launch import environment, is_local, pin_python, retrying, settings
from lonnymq.spark.sessions.ship_package import is_connect, ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Setting: TypeAlias = "str | bool | float"

DEFAULT_MASTER = "local[*]"
NEEDED_BY_CONNECT = ("grpc", "grpc_status", "google.rpc", "zstandard")


class SessionConflict(LonnyMQError):
    """This process has a session already, and it is not the one that was asked for."""


class ConnectMissing(LonnyMQError, ImportError):
    """Spark Connect needs packages that are not installed."""


# So that a type checker takes `**{"spark.driver.memory": "4g"}`, whose names it does not look at.
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
    """The session that this process has, else a new one: on `master`, or on all cores of this machine.

    `remote` is an address of Spark Connect instead: sc://host, or local[2] to start a server as well.
    `ship_code` sends this package to executors that do not have it.
    `conf` is in Spark's own words: `session(**{"spark.driver.memory": "4g"})`.
    """
    given = {name: _as_text(value) for name, value in conf.items()}
    _refuse_what_is_not_spark(given, master, remote)
    spark = _running()
    if spark is not None:
        _check_agreement(spark, master, remote, given)
    elif remote is None:
        spark = _started(master, {"spark.app.name": app_name} | given)
    else:
        spark = _connected(remote, given)
    if ship_code:
        ship(spark)
    return spark


def _started(master: str | None, given: Mapping[str, str]) -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # spark-submit has started Java and knows the master.
        return _get_or_create(given if master is None else {**given, "spark.master": master})
    master = master or DEFAULT_MASTER
    pin_python(master)
    with environment(master):
        return _get_or_create({"spark.master": retrying(master)} | settings(master, given))


def _connected(remote: str, given: Mapping[str, str]) -> SparkSession:
    _require_connect()
    if not is_local(remote):
        return _get_or_create({"spark.remote": remote, **given})
    pin_python(remote)
    with environment(remote), warnings.catch_warnings():
        # The server was started with them, and is told them again.
        warnings.filterwarnings("ignore", r"Failed to set spark\.[\s\S]*CANNOT_MODIFY_CONFIG", UserWarning)
        return _get_or_create({"spark.remote": retrying(remote)} | settings(remote, given))


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


def _check_agreement(
    found: SparkSession, master: str | None, remote: str | None, given: Mapping[str, str]
) -> None:
    """Set what can still be set; raise SessionConflict for what cannot."""
    its_master = None if is_connect(found) else found.sparkContext.master
    if master is not None and retrying(master) != its_master:
        raise _conflict(f"runs on {its_master or 'Spark Connect'}, not on {master}")
    if remote is not None and its_master is not None:
        raise _conflict(f"runs on {its_master}, and not through Spark Connect")
    for name, value in given.items():
        if found.conf.get(name, None) == value:
            continue
        if not found.conf.isModifiable(name):
            raise _conflict(f"has another {name}, which is settled at the start")
        found.conf.set(name, value)


def _conflict(how: str) -> SessionConflict:
    return SessionConflict(
        f"the session that this process has {how}", "stop it first with its stop(), or take it as it is"
    )


def _require_connect() -> None:
    missing = [name for name in NEEDED_BY_CONNECT if not is_installed(name)]
    if missing:
        raise ConnectMissing(
            f"Spark Connect needs {', '.join(missing)}, which are not installed",
            "pip install 'pyspark[connect]'",
        )


def is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _refuse_what_is_not_spark(given: Mapping[str, str], master: str | None, remote: str | None) -> None:
    for name in given:
        if not name.startswith("spark."):
            raise InvalidArgument(
                f"{name} is no setting of Spark", "settings are named as spark.driver.memory is"
            )
    if master is not None and remote is not None:
        raise InvalidArgument("master and remote were both given", "give one of them")


def _as_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
