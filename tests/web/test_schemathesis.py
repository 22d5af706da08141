"""Requests that schemathesis makes up from the OpenAPI of the interface, valid ones and others."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lonnymq import Queue
from lonnymq.web import create_app
from tests.web.browser import served
from tests.web.conftest import PERSON, access_by_header
from tests.web.filled import fill

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("schemathesis")
UNFIT = "ignored_auth"
"""The schema does not say how a person is known. tests/web/test_rights.py tries without."""


@pytest.fixture(scope="module")
def address(queue: Queue) -> Iterator[str]:
    """Of a dashboard with some of everything, so that not all answers are 404."""
    fill(queue, "acme", "mark")
    app = create_app(queue, access=access_by_header)
    with served(app) as address:
        yield address
    app.close()


def report(address: str, tmp_path: Path, *options: str) -> None:
    ran = subprocess.run(
        [
            COMMAND,
            "run",
            f"{address}/api/v1/openapi.json",
            *("--header", f"{PERSON}: ann"),
            *("--exclude-checks", UNFIT),
            *("--seed", "7", "--generation-deterministic"),
            *("--no-color", "--warnings", "off", "--no-shrink", "--continue-on-failure"),
            *options,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2_000:]


def test_few_requests(address: str, tmp_path: Path) -> None:
    report(address, tmp_path, "--phases", "coverage")


@pytest.mark.long
def test_many_requests(address: str, tmp_path: Path) -> None:
    report(address, tmp_path, "--max-examples", "300")
