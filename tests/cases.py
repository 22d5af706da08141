"""Which cases of a test run: `--cases` limits them for all tests, the marker `cases` for one."""

import random
from collections.abc import Callable

import pytest


def most_by_default(item: pytest.Item) -> int | None:
    marker = item.get_closest_marker("cases")
    is_long = item.get_closest_marker("long") is not None
    return None if marker is None or is_long else int(marker.args[0])


def left_out(items: list[pytest.Item], most: Callable[[pytest.Item], int | None]) -> set[pytest.Item]:
    """The cases beyond the most that a test may have: the same ones every time, in all processes of a run."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if most(item) is not None:
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {
        item
        for test, cases in tests.items()
        for item in _least_new(random.Random(test).sample(cases, len(cases)), most(cases[0]) or 0)
    }


def _least_new(cases: list[pytest.Item], most: int) -> list[pytest.Item]:
    """What is left when the cases are taken first whose parameters have values that no other had yet."""
    seen: set[tuple[str, int]] = set()
    for _ in range(min(most, len(cases))):
        if all(_values(case) <= seen for case in cases):
            seen.clear()
        taken = max(cases, key=lambda case: len(_values(case) - seen))
        seen |= _values(taken)
        cases.remove(taken)
    return cases


def _values(case: pytest.Item) -> set[tuple[str, int]]:
    """The values of its parameters, by their identity: some cannot be compared."""
    parameters = case.callspec.params if hasattr(case, "callspec") else {}
    return {(name, id(value)) for name, value in parameters.items()}
