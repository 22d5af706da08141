"""kombu's integration tests, which are classes to inherit from, on our transport."""

import os

import kombu
import pytest
from t.integration import common

import lonnymq.kombu

lonnymq.kombu.register()
URL = f"lonnymq+{os.environ['LONNYMQ_SUITE_DSN']}"
NOWHERE = "lonnymq+postgresql://nobody@localhost:1/nowhere"


@pytest.fixture
def connection() -> kombu.Connection:
    return kombu.Connection(URL)


@pytest.fixture
def invalid_connection() -> kombu.Connection:
    return kombu.Connection(NOWHERE)


@pytest.fixture
def failover_connection() -> kombu.Connection:
    return kombu.Connection(f"{NOWHERE};{URL}")


class TestBasicFunctionality(common.BasicFunctionality): ...


class TestExchangeTypes(common.BaseExchangeTypes): ...


class TestTimeToLive(common.BaseTimeToLive): ...


class TestPriority(common.BasePriority): ...


class TestMessage(common.BaseMessage): ...


class TestEventLoop(common.BaseEventLoop): ...


class TestFailover(common.BaseFailover): ...
