"""How much the model tests try: `pytest tests/model --model-examples N`, and `--model-seed N` to repeat
a run.
"""

import secrets

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("model")
    group.addoption("--model-examples", type=int, default=100, help="how many lives of a queue to try")
    group.addoption("--model-seed", type=int, default=None, help="the seed that a failed run has named")


# pytest knows these options only if tests/model is given on its command line, hence the defaults below.


@pytest.fixture(scope="session")
def model_examples(pytestconfig: pytest.Config) -> int:
    chosen: int = pytestconfig.getoption("--model-examples", 100)
    return chosen


@pytest.fixture(scope="session")
def model_seed(pytestconfig: pytest.Config) -> int:
    chosen: int | None = pytestconfig.getoption("--model-seed", None)
    if chosen is None:
        chosen = secrets.randbelow(10**9) if pytestconfig.getoption("--random") else 1
    return chosen
