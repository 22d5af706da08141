"""Every test has its own database with the tables and an empty queue, from the pytest plugin of lonnymq."""

from collections.abc import Callable, Iterator

import pytest
from fastapi.testclient import TestClient

from lonnymq import Queue
from saas import tasks
from saas.database import Base, make_engine, new_session
from saas.web import api


@pytest.fixture(scope="session")
def lonnymq_prepare() -> Callable[[str], None]:
    def make_tables(dsn: str) -> None:
        engine = make_engine(dsn)
        Base.metadata.create_all(engine)
        engine.dispose()

    return make_tables


@pytest.fixture(autouse=True)
def _test_database(lonnymq_dsn: str, lonnymq_queue: Queue, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    engine = make_engine(lonnymq_dsn)
    monkeypatch.setattr(tasks, "queue", lonnymq_queue)
    monkeypatch.setattr(tasks.app, "queue", lonnymq_queue)
    monkeypatch.setitem(new_session.kw, "bind", engine)
    yield
    engine.dispose()


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(api) as client:
        yield client
