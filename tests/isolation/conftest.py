from collections.abc import Iterator

import pytest

from tests.database import AnyServer, create_database, drop_database, unique_name
from tests.isolation.arena import Arena


@pytest.fixture(scope="module")
def arena_of_module(server: AnyServer, template: str) -> Iterator[Arena]:
    name = unique_name("lonnymq_isolation")
    create_database(server, name, template)
    arena = Arena(server.dsn(name))
    yield arena
    arena.close()
    drop_database(server, name)


@pytest.fixture
def arena(arena_of_module: Arena) -> Arena:
    arena_of_module.empty()
    return arena_of_module
