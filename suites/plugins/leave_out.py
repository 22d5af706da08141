"""A pytest plugin for suites: skips the tests of not_applicable that have `run = false`.

Use it with `-p leave_out` in the command of a suite.
"""

import os
import re

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    patterns = [
        ".*".join(map(re.escape, pattern.split("*")))
        for pattern in os.environ.get("LONNYMQ_SUITE_LEFT_OUT", "").splitlines()
    ]
    for item in items:
        if any(re.fullmatch(pattern, junit_name(item.nodeid), re.DOTALL) for pattern in patterns):
            item.add_marker(pytest.mark.skip(reason="left out"))


def junit_name(node_id: str) -> str:
    """The name as suite.toml writes it: classname::name of the JUnit file."""
    address, bracket, parameters = node_id.partition("[")
    file, *names = address.split("::")
    *classes, name = [file.replace("/", ".").removesuffix(".py"), *names]
    return f"{'.'.join(classes)}::{name}{bracket}{parameters}"
