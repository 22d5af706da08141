"""How a process of Spark reaches the database, and what it says when it cannot."""

import pickle

from lonnymq.spark.connecting import Connecting


def test_a_service_is_reached(options: dict[str, str]) -> None:
    connecting = pickle.loads(pickle.dumps(Connecting.of(options)))  # noqa: S301
    with connecting.connect() as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    with connecting.adbc() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 AS one")
        assert cursor.fetch_arrow_table().to_pydict() == {"one": [1]}
