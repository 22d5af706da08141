"""A pytest plugin: Celery's tests read the URLs of the broker and the results from the environment. Their
fixtures come with Celery; the package pytest-celery loads them, and is not needed for a few tests.
"""

import os

import pytest

URL = f"lonnymq+{os.environ['LONNYMQ_SUITE_DSN']}"
os.environ["TEST_BROKER"] = os.environ["TEST_BACKEND"] = URL


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    from celery.contrib import pytest as fixtures

    if not config.pluginmanager.is_registered(fixtures):
        config.pluginmanager.register(fixtures)
