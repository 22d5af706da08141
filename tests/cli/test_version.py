"""lonnymq version, lonnymq --version."""

import lonnymq as package
from tests.cli.conftest import Run


def test_the_version_as_a_command_and_as_an_option(lonnymq: Run) -> None:
    told = lonnymq("version")
    assert (told.code, told.stdout) == (0, f"lonnymq {package.__version__}\n")
    assert lonnymq("--version") == told
    assert lonnymq("version", "--json").record["version"] == package.__version__
