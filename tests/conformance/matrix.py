"""Prints, at the end of a run, a table of adapters and commands: which adapter ran which command."""

from typing import Any

import pytest

CELL = "tests/conformance/test_adapters.py::test_call["


class Matrix:
    """A plugin for the main process, which gets the results of all test processes."""

    def __init__(self) -> None:
        self._passed: dict[tuple[str, str], bool] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.nodeid.startswith(CELL) and (report.when == "call" or report.failed):
            driver, _, call = report.nodeid[len(CELL) : -1].rpartition("-")
            self._passed[driver, call] = self._passed.get((driver, call), True) and report.passed

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        drivers = list(dict.fromkeys(driver for driver, _ in sorted(self._passed)))
        if not drivers:
            return
        terminalreporter.section("adapters and commands")
        for number, driver in enumerate(drivers, start=1):
            terminalreporter.write_line(f"{number:>3}  {driver}")
        header = "".join(f"{number:>4}" for number in range(1, len(drivers) + 1))
        terminalreporter.write_line(f"{'':24}{header}")
        for call in sorted({call for _, call in self._passed}):
            marks = [self._passed.get((driver, call)) for driver in drivers]
            cells = "".join(f"{'-' if mark is None else '✓' if mark else '✗':>4}" for mark in marks)
            terminalreporter.write_line(f"{call:24}{cells}")
