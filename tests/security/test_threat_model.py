"""docs/security.md names tests that exist."""

import ast
import re
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_the_page_on_security_names_tests_that_exist() -> None:
    named = NAMED.findall((CHECKOUT / "docs" / "security.md").read_text())
    assert len(named) > 40
    for path, name in named:
        body = ast.parse((CHECKOUT / path).read_text()).body
        functions = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert name in functions, f"{path}::{name}"


def test_every_test_of_a_tenants_login_and_of_neighbours_is_on_the_page() -> None:
    named = set(NAMED.findall((CHECKOUT / "docs" / "security.md").read_text()))
    missing = []
    for name in ("test_tenants_login.py", "test_neighbours.py"):
        path = CHECKOUT / "tests" / "security" / name
        tests = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        missing += [
            test
            for test in tests
            if test.startswith("test_") and (f"tests/security/{name}", test) not in named
        ]
    assert set(missing) <= {
        "test_a_login_that_was_made_a_member_installs_for_the_owner",
        "test_the_owner_of_the_database_installs_into_public",
    }
