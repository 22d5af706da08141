"""Creates the tables and the queue, as their owner; run it at every deployment: python -m saas.install

If WEB_DATABASE_URL and WORKER_DATABASE_URL are set, it also creates the logins that they name. Each of them
may do what its program needs, and nothing else.
"""

import os

from psycopg import sql
from sqlalchemy import make_url

from saas.database import Base, engine
from saas.tasks import queue

# The roles of the queue, and the privileges on the service's own tables.
LOGINS = {
    "WEB_DATABASE_URL": (
        ["lonnymq_producer", "lonnymq_observer"],
        {
            "document": "SELECT, INSERT",
            "import": "SELECT, INSERT, UPDATE",
            "charge": "SELECT",
            "invoice": "SELECT",
        },
    ),
    "WORKER_DATABASE_URL": (
        ["lonnymq_consumer", "lonnymq_producer"],
        {
            "document": "SELECT, UPDATE",
            "import": "SELECT, UPDATE",
            "charge": "SELECT, INSERT",
            "invoice": "SELECT, INSERT",
        },
    ),
}


def make_login(address: str, roles: list[str], tables: dict[str, str]) -> None:
    url = make_url(address)
    login = sql.Identifier(url.username or "")
    statements = [
        sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(login, url.password),
        *(sql.SQL("GRANT {} TO {}").format(sql.Identifier(role), login) for role in roles),
    ]
    for table, privileges in tables.items():
        names = sql.Identifier(table), sql.Identifier(f"{table}_id_seq"), login
        granted = sql.SQL("GRANT {0} ON {1} TO {3}; GRANT USAGE ON SEQUENCE {2} TO {3}")
        statements.append(granted.format(sql.SQL(privileges), *names))
    with engine.begin() as connection:
        cursor = connection.connection.cursor()
        cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [url.username])
        is_there = cursor.fetchone() is not None
        for statement in statements[1:] if is_there else statements:
            cursor.execute(statement)


if __name__ == "__main__":
    Base.metadata.create_all(engine)
    addresses = {name: os.environ[name] for name in LOGINS if name in os.environ}
    queue.install(roles=bool(addresses))
    for name, address in addresses.items():
        make_login(address, *LOGINS[name])
    engine.dispose()
