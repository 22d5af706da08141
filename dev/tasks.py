"""The commands of ./run, once there is an environment."""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import NoReturn

from dev import debian, site
from dev.environment import BIN, CHECKOUT
from dev.report import Report, closing_line, failures

SPARK = "tests/spark"
ALL_VERSIONS = ("tests/sql", "tests/plans", "tests/model", "tests/isolation")
CHECKS = {
    "lint": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "types": ["mypy"],
    "layers": ["lint-imports", "--no-logo"],
}
SELECTIONS = {"--quick": "not slow and not long", "--long": ""}
AGAIN_MAX = 5
LAST_FAILED = ["--last-failed", "--last-failed-no-failures=none"]
LOCKED = ("runtime", "dev")
COMPILE = ["--quiet", "--generate-hashes", "--strip-extras", "--no-emit-options"]
COMPILE += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]


def test(arguments: list[str]) -> int:
    quick = "--quick" in arguments
    chosen = [argument for argument in arguments if argument not in SELECTIONS]
    if debian.may_install():
        debian.install_missing()
    report = Report()
    only = ["-m", next((SELECTIONS[argument] for argument in arguments if argument in SELECTIONS), "not long")]
    if chosen:
        _tests("tests", [*only, *chosen], report)
    else:
        _checks(report)
        _tests("PostgreSQL 18", [*only, f"--ignore={SPARK}"], report)
        _tests("Spark", [*only, "-n0", SPARK], report)  # one session serves all of them
        if not quick:
            _tests_on_oldest(report)
    return report.finish()


def check(_arguments: list[str]) -> int:
    report = Report()
    _checks(report)
    return report.finish()


def demo(arguments: list[str]) -> NoReturn:
    lonnymq(["demo", *arguments])


def bench(arguments: list[str]) -> NoReturn:
    if not (CHECKOUT / "benchmarks" / "__main__.py").exists():
        sys.exit("./run bench: there are no benchmarks in this checkout yet")
    os.chdir(CHECKOUT)
    _become(BIN / "python", ["-m", "benchmarks", *arguments])


def docs(_arguments: list[str]) -> int:
    try:
        print(site.build(site.BUILT))
    except site.SiteFailed as error:
        print(f"./run docs: the site was not built:\n{error}", file=sys.stderr)
        return 1
    return 0


def lonnymq(arguments: list[str]) -> NoReturn:
    _become(BIN / "lonnymq", arguments)


def lock(arguments: list[str]) -> int:
    """Compile requirements/*.in again, with a pip-tools of the moment. `--upgrade` takes newer versions."""
    with tempfile.TemporaryDirectory(prefix="lonnymq-lock-") as folder:
        venv.create(folder, with_pip=True)
        tools = Path(folder) / "bin"
        subprocess.run([tools / "pip", "install", "--quiet", "pip-tools"], check=True)
        for name in LOCKED:
            subprocess.run(
                [tools / "pip-compile", *COMPILE, *arguments, f"--output-file={name}.txt", f"{name}.in"],
                cwd=CHECKOUT / "requirements",
                env=os.environ | {"CUSTOM_COMPILE_COMMAND": "./run lock"},
                check=True,
            )
    return 0


def _checks(report: Report) -> None:
    for name, (program, *arguments) in CHECKS.items():
        with report.step(name) as step:
            step.outcome(_call(BIN / program, arguments))


def _tests_on_oldest(report: Report) -> None:
    folders = [folder for folder in ALL_VERSIONS if any((CHECKOUT / folder).glob("**/test_*.py"))]
    package = f"postgresql-{debian.OLDEST_POSTGRESQL}"
    if not debian.is_installed(package):
        report.skip(f"PostgreSQL {debian.OLDEST_POSTGRESQL}", f"to run it: apt-get install {package}")
    elif folders:
        version = str(debian.OLDEST_POSTGRESQL)
        _tests(f"PostgreSQL {version}", ["--pg", version, *folders], report)


def _tests(name: str, arguments: list[str], report: Report) -> None:
    # A process that is done takes from the other's list: a few tests are much longer than the rest.
    both = ["-n", "2", "--dist", "worksteal"]
    processes = [] if any(argument.startswith(("-n", "--pdb")) for argument in arguments) else both
    with tempfile.TemporaryDirectory(prefix="lonnymq-report-") as folder, report.step(name) as step:
        results = Path(folder) / "results.xml"
        code = _call(BIN / "pytest", [*processes, f"--junit-xml={results}", *arguments])
        summary = closing_line(results)
        if code == 1 and 0 < failures(results) <= AGAIN_MAX:
            # A busy machine can make a test fail that waits for something. What fails alone too is a defect.
            print(f"\n== {name}: what failed, once more and alone", flush=True)
            again = Path(folder) / "again.xml"
            code = _call(BIN / "pytest", [*arguments, "-n0", f"--junit-xml={again}", *LAST_FAILED])
            summary += f"; what failed, alone: {closing_line(again)}"
        step.outcome(code, summary)


def _call(program: Path, arguments: list[str]) -> int:
    return subprocess.run([program, *arguments], cwd=CHECKOUT, check=False).returncode


def _become(program: Path, arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])
