"""Runs the tests of the project in `site` with Django's test runner, in separate processes: a process has
only one set of Django's settings.
"""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def test_the_project(dsn: str) -> None:
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-m",
            "django",
            "test",
            "tests.django.site",
            "--pattern",
            "check_*.py",
        ],
        cwd=CHECKOUT,
        env=os.environ | {"LONNYMQ_DJANGO_DSN": dsn, "DJANGO_SETTINGS_MODULE": "tests.django.site.settings"},
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert ended.returncode == 0, ended.stderr
    assert "\nOK\n" in ended.stderr
