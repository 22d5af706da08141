from collections.abc import Iterator

import pytest

from tests.database import AnyServer, create_database, drop_database, unique_name
from tests.isolation.shared_database import SharedDatabase


@pytest.fixture(scope="module")
def module_database(server: AnyServer, template: str) -> Iterator[SharedDatabase]:
    name = unique_name("lonnymq_isolation")
    create_database(server, name, template)
    database = SharedDatabase(server.dsn(name))
    yield database
    database.close()
    drop_database(server, name)


@pytest.fixture
def database(module_database: SharedDatabase) -> SharedDatabase:
    module_database.empty()
    return module_database
