"""Lists the skipped tests at the end of a run. With CI=true, each skip is a failure."""

import os

import pytest

from dev import debian

Report = pytest.TestReport | pytest.CollectReport


def require_package(package: str) -> None:
    """Skip the test if the Debian package is not installed, and say how to install it."""
    if package not in debian.named_packages():
        pytest.fail(f"packages.txt does not list {package}")
    if not debian.is_installed(package):
        pytest.skip(f"needs Debian's {package}: apt-get install {package}")


def skips_fail() -> bool:
    return os.environ.get("CI") == "true"


class Skips:
    """A plugin for the main process, which prints the report."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._collect(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._collect(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._reasons and skips_fail() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._reasons:
            return
        verdict = ": with CI=true each is a failure" if skips_fail() else ""
        terminalreporter.section(f"{len(self._reasons)} skipped{verdict}", sep="-", yellow=True)
        for test, reason in sorted(self._reasons.items()):
            terminalreporter.line(f"{test}: {reason}")
        missing = [package for package in debian.named_packages() if self._would_help(package)]
        if missing:
            terminalreporter.line(
                f"to run the tests that need Debian packages: apt-get install {' '.join(missing)}"
            )

    def _collect(self, report: Report) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._reasons[report.nodeid] = _reason(report)

    def _would_help(self, package: str) -> bool:
        return any(reason.endswith(f"apt-get install {package}") for reason in self._reasons.values())


def _reason(report: Report) -> str:
    skip = report.longrepr
    text = skip[2] if isinstance(skip, tuple) else str(skip)
    return text.removeprefix("Skipped: ")
