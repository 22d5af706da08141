"""A separate server for these tests, because the activity of other tests on a shared one would be
counted.

A transaction that is left open in any database keeps dead rows everywhere. Creating and dropping many
databases, or a vacuum of the catalogue, makes every session read its catalogue again.
"""

import shutil
from collections.abc import Iterator

import psycopg
import pytest

from lonnymq.embedded import Server
from tests.conftest import admin_connection, installed_template, running_server
from tests.database import AnyServer, server_folder


@pytest.fixture(scope="session")
def server(pytestconfig: pytest.Config) -> Iterator[AnyServer]:
    data_dir = server_folder("lonnymq-plans-")
    try:
        with running_server(pytestconfig, data_dir, autovacuum="off") as running:
            yield running
    finally:
        Server(data_dir).erase()
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def admin(server: AnyServer) -> Iterator[psycopg.Connection]:
    with admin_connection(server) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(server: AnyServer) -> Iterator[str]:
    with installed_template(server) as name:
        yield name
