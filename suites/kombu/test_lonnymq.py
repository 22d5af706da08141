"""kombu's own integration tests, on our transport. kombu's tests are classes to inherit from."""

import os

import kombu
import pytest
from t.integration import common

DSN = os.environ["LONNYMQ_SUITE_DSN"]
URL = f"lonnymq+{DSN}"


@pytest.fixture
def connection():
    return kombu.Connection(URL)


@pytest.fixture
def invalid_connection():
    return kombu.Connection("lonnymq+postgresql://nobody@localhost:1/nowhere")


@pytest.fixture
def failover_connection():
    return kombu.Connection(f"lonnymq+postgresql://nobody@localhost:1/nowhere;{URL}")


class TestBasicFunctionality(common.BasicFunctionality):
    pass


class TestExchangeTypes(common.BaseExchangeTypes):
    pass


class TestTimeToLive(common.BaseTimeToLive):
    pass


class TestPriority(common.BasePriority):
    pass


class TestMessage(common.BaseMessage):
    pass


class TestEventLoop(common.BaseEventLoop):
    pass


class TestFailover(common.BaseFailover):
    pass
