"""A pytest plugin: Celery's tests read the URLs of the broker and the results from the environment. Their
fixtures come with Celery; the package pytest-celery loads them, and is not needed for a few tests.

What it changes about the tests is listed in suite.toml, for the page.
"""

import os

import pytest

URL = f"lonnymq+{os.environ['LONNYMQ_SUITE_DSN']}"
os.environ["TEST_BROKER"] = os.environ["TEST_BACKEND"] = URL

LONGER = {"test_revoked_by_headers_complex_canvas": 300}
"""The time limits of tests, in seconds."""


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    from celery.contrib import pytest as fixtures

    if not config.pluginmanager.is_registered(fixtures):
        config.pluginmanager.register(fixtures)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in LONGER:
            item.add_marker(pytest.mark.timeout(LONGER[item.name]), append=False)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    from celery._state import _set_task_join_will_block

    _set_task_join_will_block(blocks=False)
