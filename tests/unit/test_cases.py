"""Where cases are left out, every value of every parameter remains, if there are enough cases for it."""

import pytest

from tests.cases import left_out, most_by_default

TESTS = """
import pytest

@pytest.mark.cases(6)
@pytest.mark.parametrize("one", range(6))
@pytest.mark.parametrize("other", "abc")
@pytest.mark.parametrize("third", [True, pytest.param(False, marks=pytest.mark.long)])
def test_limited(one, other, third): ...

@pytest.mark.parametrize("one", range(6))
def test_other(one): ...
"""
pytest_plugins = "pytester"


def test_cases_that_are_left_out(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  cases\n  long")
    items = pytester.getitems(TESTS)
    limited = [item for item in items if item.name.startswith("test_limited[True")]
    dropped = left_out(items, most_by_default)
    kept = [item.name for item in limited if item not in dropped]
    assert dropped <= set(limited)
    assert (len(limited), len(kept)) == (18, 6)
    values = [name.strip("]").split("-")[1:] for name in kept]
    assert [len(set(column)) for column in zip(*values, strict=True)] == [3, 6]
    assert left_out(items, most_by_default) == dropped
    assert len(left_out(items, lambda _: 2)) == len(items) - 2 * 2
