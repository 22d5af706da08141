"""How a process of Spark connects to the database, and its errors when it cannot."""

import pickle
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lonnymq.errors import DatabaseUnreachable, InvalidAddress, InvalidArgument, InvalidSchemaName
from lonnymq.spark.connection import QueueAddress
from lonnymq.spark.source_options import InvalidOption, SourceOptions

CANARY = "canary-4711"


def reached(options: dict[str, str]) -> str:
    """The name of the database that both drivers connect to, after pickling as for an executor."""
    address = pickle.loads(pickle.dumps(QueueAddress.of(options)))  # noqa: S301
    with address.connect() as connection:
        row = connection.execute("SELECT current_database()").fetchone()
    with address.adbc() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT current_database()::text AS name")
        assert cursor.fetch_arrow_table().to_pydict() == {"name": [row[0]]}
    return str(row[0])


def without_password(dsn: str) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in conninfo_to_dict(dsn).items()
        if name in {"host", "port", "dbname", "user"}
    }


@pytest.fixture
def database(conn: psycopg.Connection) -> str:
    return conn.info.dbname


@pytest.fixture
def password(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["password"])


def test_by_service(options: dict[str, str], database: str) -> None:
    assert reached(options) == database


def test_by_variable(dsn: str, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", dsn)
    assert reached({"dsnEnv": "SHOP_DSN"}) == database
    assert reached({"dsnenv": "SHOP_DSN", "dbname": "postgres"}) == "postgres"


def test_by_passfile(dsn: str, database: str, password: str, tmp_path: Path) -> None:
    passfile = tmp_path / "pgpass"
    passfile.write_text(f"*:*:*:*:{password}\n", encoding="utf-8")
    passfile.chmod(0o600)
    assert reached(without_password(dsn) | {"passfile": str(passfile)}) == database


def test_by_an_address_without_a_password(
    dsn: str, database: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", password)
    assert reached({"dsn": make_conninfo(**without_password(dsn))}) == database


def test_by_libpqs_own_variables(
    dsn: str, database: str, password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}
    for name, value in without_password(dsn).items():
        monkeypatch.setenv(names[name], value)
    monkeypatch.setenv("PGPASSWORD", password)
    assert reached({}) == database


def test_autocommit(options: dict[str, str]) -> None:
    with QueueAddress.of(options).connect() as connection:
        assert connection.autocommit
    with QueueAddress.of(options).connect(autocommit=False) as connection:
        assert not connection.autocommit


def test_the_schema() -> None:
    assert QueueAddress.of({}).schema == "lonnymq"
    assert QueueAddress.of({"schema": "Wärter"}).schema == "Wärter"
    with pytest.raises(InvalidSchemaName):
        QueueAddress.of({"schema": "pg_lonnymq"})


def test_nothing_secret_is_pickled(dsn: str, password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", dsn)
    address = QueueAddress.of({"dsnEnv": "SHOP_DSN"})
    address.connect().close()
    assert password.encode() not in pickle.dumps(address)
    assert password not in repr(address)


@pytest.mark.parametrize(
    "options",
    [
        {"password": CANARY},
        {"PASSWORD": CANARY},
        {"sslpassword": CANARY},
        {"dsn": f"postgresql://user:{CANARY}@host/shop"},
        {"dsn": f"host=h password={CANARY}"},
        {"dsn": f"postgresql://host/shop?password={CANARY}"},
        {"dsn": f"postgresql+psycopg://user:{CANARY}@host/shop"},
        {"dsn": f"postgresql://user:{CANARY}%@host:port/shop"},
        {"dsnEnv": f"postgresql://user:{CANARY}@host/shop"},
        {"dsnEnv": f"host=h password = {CANARY}"},
        {"dsnEnv": CANARY},
        {"service": f"postgresql://user:{CANARY}@host/shop"},
        {"dbname": f"postgresql://user:{CANARY}@host/shop"},
        {"host": f"postgresql://user:{CANARY}@host/shop"},
    ],
)
def test_a_password_among_the_options_is_refused_and_not_repeated(options: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument) as refused:
        QueueAddress.of(options).connect()
    assert CANARY not in str(refused.value)
    with pytest.raises(InvalidArgument):
        QueueAddress.of(options)


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_DSN", raising=False)
    with pytest.raises(InvalidOption, match=r"SHOP_DSN, which is not set.*every executor"):
        QueueAddress.of({"dsnEnv": "SHOP_DSN"}).connect()


def test_a_variable_that_does_not_hold_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_DSN", f"postgresql://user:{CANARY}@host:port/shop")
    with pytest.raises(InvalidAddress, match="SHOP_DSN") as refused:
        QueueAddress.of({"dsnEnv": "SHOP_DSN"}).connect()
    assert CANARY not in str(refused.value)


@pytest.mark.parametrize("way", ["connect", "adbc"])
def test_errors_do_not_contain_the_password(dsn: str, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    address = without_password(dsn)
    wrong = [address | {"port": "1", "host": "127.0.0.1"}, address | {"dbname": "nowhere"}, address]
    for parameters in wrong:
        monkeypatch.setenv("SHOP_DSN", make_conninfo(**(parameters | {"password": CANARY})))
        with pytest.raises(DatabaseUnreachable) as raised:
            getattr(QueueAddress.of({"dsnEnv": "SHOP_DSN"}), way)()
        assert CANARY not in str(raised.value)
        assert raised.value.__cause__ is None


def test_options_of_a_format() -> None:
    options = SourceOptions(
        {"maxrows": "5", "follow": "TRUE", "startingoffsets": "Latest", "service": "shop"},
        ["maxRows", "follow", "startingOffsets", "other"],
    )
    assert options.integer("maxRows") == 5
    assert options.boolean("follow", default=False) is True
    assert options.choice("startingOffsets", ["earliest", "latest"], "earliest") == "latest"
    assert options.text("other") is None
    assert options.text("other", "x") == "x"
    assert options.integer("other", 7) == 7
    assert options.boolean("other", default=True) is True
    assert options.choice("other", ["a", "b"], "b") == "b"
    assert options.required("maxRows", "give it") == "5"
    assert "maxRows" in options
    assert "other" not in options


@pytest.mark.parametrize("value", ["", "many", "1.5", "0", "11"])
def test_numbers_out_of_range(value: str) -> None:
    with pytest.raises(InvalidOption, match="maxRows"):
        SourceOptions({"maxrows": value}, ["maxRows"]).integer("maxRows", at_most=10)


def test_invalid_and_missing_values() -> None:
    options = SourceOptions({"follow": "perhaps", "empty": ""}, ["follow", "empty", "missing"])
    with pytest.raises(InvalidOption, match="true or false"):
        options.boolean("follow", default=False)
    with pytest.raises(InvalidOption, match="never or always"):
        options.choice("follow", ["never", "always"], "never")
    for name in ("empty", "missing"):
        with pytest.raises(InvalidOption, match=name):
            options.required(name, "give it")


def test_unknown_options_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        InvalidOption, match=r"no option limit or path \(the options are .*dsnEnv.*maxRows.*service"
    ):
        SourceOptions({"path": "/x", "limit": "5", "service": "shop"}, ["maxRows"])


def test_options_that_spark_adds_are_known() -> None:
    SourceOptions({"checkpointlocation": "/x", "queryname": "q"})


def test_a_password_has_its_own_error() -> None:
    with pytest.raises(InvalidOption, match="Spark shows options") as refused:
        SourceOptions({"password": CANARY})
    assert CANARY not in str(refused.value)
