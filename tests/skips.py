"""Skips are counted aloud; where CI is set to true each one is a failure."""

import os

import pytest

from dev import debian

Report = pytest.TestReport | pytest.CollectReport


def require_package(package: str) -> None:
    """Skip the test, with the line that installs what it needs, when the Debian package is not there."""
    if package not in debian.named_packages():
        pytest.fail(f"{package} is not named in packages.txt")
    if not debian.is_installed(package):
        pytest.skip(f"needs Debian's {package}: apt-get install {package}")


def fail_here() -> bool:
    return os.environ.get("CI") == "true"


class Skips:
    """A plugin for the process that reports to the user."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._reasons and fail_here() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reasons:
            return
        verdict = ": with CI=true each is a failure" if fail_here() else ""
        terminalreporter.section(f"{len(self._reasons)} skipped{verdict}", sep="-", yellow=True)
        for test, reason in sorted(self._reasons.items()):
            terminalreporter.line(f"{test}: {reason}")
        wanted = [package for package in debian.named_packages() if self._is_wanted(package)]
        if wanted:
            terminalreporter.line(
                f"to run those that need Debian packages: apt-get install {' '.join(wanted)}"
            )

    def _note(self, report: Report) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._reasons[report.nodeid] = _reason(report)

    def _is_wanted(self, package: str) -> bool:
        return any(reason.endswith(f"apt-get install {package}") for reason in self._reasons.values())


def _reason(report: Report) -> str:
    where = report.longrepr
    text = where[2] if isinstance(where, tuple) else str(where)
    return text.removeprefix("Skipped: ")
