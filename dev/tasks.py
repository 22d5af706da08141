"""The commands of ./run. They run once the environment is there."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from dev import debian, site
from dev.environment import BIN, CHECKOUT
from dev.report import Report, closing_line, failures
from dev.suites.pythons import find_python

CHECKS = {
    "lint": ["ruff", "check"],
    "format": ["ruff", "format", "--check"],
    "layers": ["lint-imports", "--no-logo"],
}
# These run beside tests. Those on Spark leave a quarter of a core idle, which is as much as the two need.
TYPES = "types", [str(BIN / "mypy")]
OTHER_SUITES = "other suites", [str(BIN / "python"), "-m", "dev.suites", "--short"]
SELECTIONS = {"--quick": "not slow and not long", "--long": ""}
DEFAULT_SELECTION = "not long"
# Four processes keep two cores busy, because tests often wait: for a lease, a timeout or a program. With
# worksteal, a process that has finished takes tests of another: a few are much longer than the rest.
PROCESSES = ["-n", "4", "--dist", "worksteal"]
# --quick leaves out folders whose tests start servers and programs, or try many interleavings, and takes few
# cases of each test.
QUICK = (
    "--cases",
    "2",
    "tests/unit",
    "tests/sql",
    "tests/conformance",
    "tests/client",
    "tests/worker",
    "tests/cli",
)
SPARK = "tests/spark"
# Each process has its own Spark session, and its own server: readers of the history wait for all transactions
# that are open on their server.
SPARK_PROCESSES = ["-n", "2", "--dist", "loadfile", "--own-servers"]
ON_OLDEST = ("tests/sql", "tests/plans", "tests/isolation")
# The oldest version runs every test but the slow ones, and few cases of each: all of them run on 18.
FEW_ON_OLDEST = ["-m", SELECTIONS["--quick"], "--cases", "1"]
RERUN_MAX = 10
LAST_FAILED = ["--last-failed", "--last-failed-no-failures=none"]
LOCKED = ("runtime", "dev")
FIELD_PYTHONS = ("3.13", "3.12")  # some of those libraries need 3.12
FIELD = (
    "field-"  # requirements of the libraries that ./run bench field runs, each in an environment of its own
)
COMPILE = ["--quiet", "--generate-hashes", "--strip-extras", "--no-emit-options"]
COMPILE += ["--no-emit-index-url", "--no-emit-find-links", "--no-emit-trusted-host"]


def test(arguments: list[str]) -> int:
    chosen = [argument for argument in arguments if argument not in SELECTIONS]
    selections = [SELECTIONS[argument] for argument in arguments if argument in SELECTIONS]
    selected = ["-m", selections[0] if selections else DEFAULT_SELECTION]
    if debian.may_install():
        debian.install_missing()
    report = Report()
    if chosen:
        _tests("tests", [*selected, *chosen], report)
        return report.finish()
    _quick_checks(report)
    if "--quick" in arguments:
        with _beside(report, TYPES):
            _tests("PostgreSQL 18", [*selected, *QUICK], report)
        return report.finish()
    _tests("PostgreSQL 18", [*selected, f"--ignore={SPARK}"], report)
    is_long = "--long" in arguments
    with _beside(report, TYPES, *([] if is_long else [OTHER_SUITES])):
        _tests("Spark", [*selected, *SPARK_PROCESSES, SPARK], report)
    if is_long:
        with report.step(OTHER_SUITES[0]) as step:
            step.set_outcome(_call(BIN / "python", ["-m", "dev.suites"]))
    _tests_on_oldest(selected if is_long else FEW_ON_OLDEST, report)
    return report.finish()


def check(_arguments: list[str]) -> int:
    report = Report()
    with _beside(report, TYPES):
        _quick_checks(report)
    return report.finish()


def demo(arguments: list[str]) -> NoReturn:
    lonnymq(["demo", *arguments])


def bench(arguments: list[str]) -> NoReturn:
    os.chdir(CHECKOUT)
    _replace_process(BIN / "python", ["-m", "benchmarks", *arguments])


def chaos(arguments: list[str]) -> NoReturn:
    """As soak: its files are named relative to where the command is called."""
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    _replace_process(BIN / "python", ["-m", "chaos", *arguments])


def soak(arguments: list[str]) -> NoReturn:
    """Its files are named relative to where the command is called."""
    os.environ["PYTHONPATH"] = str(CHECKOUT)
    _replace_process(BIN / "python", ["-m", "benchmarks.soak", *arguments])


def suites(arguments: list[str]) -> NoReturn:
    os.chdir(CHECKOUT)
    _replace_process(BIN / "python", ["-m", "dev.suites", *arguments])


def model(arguments: list[str]) -> NoReturn:
    os.chdir(CHECKOUT)
    _replace_process(BIN / "python", ["-m", "dev.model", *arguments])


def docs(_arguments: list[str]) -> int:
    try:
        print(site.build(site.BUILT))
    except site.SiteFailed as error:
        print(f"./run docs: could not build the site:\n{error}", file=sys.stderr)
        return 1
    return 0


def lonnymq(arguments: list[str]) -> NoReturn:
    _replace_process(BIN / "lonnymq", arguments)


def lock(arguments: list[str]) -> int:
    """Compile requirements/*.in with the newest pip-tools. `--upgrade` takes newer versions."""
    _compile(Path(sys.executable), LOCKED, arguments)
    field = sorted(path.stem for path in (CHECKOUT / "requirements").glob(f"{FIELD}*.in"))
    newer = next(filter(None, map(find_python, FIELD_PYTHONS)), None)
    if newer is None:
        print(f"{FIELD}*.txt are kept: compiling them takes Python {' or '.join(FIELD_PYTHONS)}")
        return 0
    _compile(newer, field, arguments)
    return 0


def _compile(python: Path, names: Iterable[str], arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="lonnymq-lock-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        tools = Path(folder) / "bin"
        subprocess.run([tools / "pip", "install", "--quiet", "pip-tools"], check=True)
        for name in names:
            subprocess.run(
                [tools / "pip-compile", *COMPILE, *arguments, f"--output-file={name}.txt", f"{name}.in"],
                cwd=CHECKOUT / "requirements",
                env=os.environ | {"CUSTOM_COMPILE_COMMAND": "./run lock"},
                check=True,
            )


def _quick_checks(report: Report) -> None:
    for name, (program, *arguments) in CHECKS.items():
        with report.step(name) as step:
            step.set_outcome(_call(BIN / program, arguments))


@contextmanager
def _beside(report: Report, *commands: tuple[str, list[str]]) -> Iterator[None]:
    """Run these commands, one after the other, while the block runs, and report them after that."""
    with ThreadPoolExecutor(1) as thread:
        running = {name: thread.submit(_output_of, command) for name, command in commands}
        yield
        for name, done in running.items():
            with report.step(name) as step:
                step.set_outcome(done.result().returncode, "beside the others")
                print(done.result().stdout, end="")


def _output_of(command: list[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _tests_on_oldest(selected: list[str], report: Report) -> None:
    version = str(debian.OLDEST_POSTGRESQL)
    package = f"postgresql-{version}"
    if not debian.is_installed(package):
        report.skip(f"PostgreSQL {version}", f"to run it: apt-get install {package}")
        return
    _tests(f"PostgreSQL {version}", [*selected, "--pg", version, *ON_OLDEST], report)


def _tests(name: str, arguments: list[str], report: Report) -> None:
    processes = [] if any(argument.startswith(("-n", "--pdb")) for argument in arguments) else PROCESSES
    with tempfile.TemporaryDirectory(prefix="lonnymq-report-") as folder, report.step(name) as step:
        results = Path(folder) / "results.xml"
        code = _call(BIN / "pytest", [*processes, f"--junit-xml={results}", *arguments])
        summary = closing_line(results)
        if code == 1 and 0 < failures(results) <= RERUN_MAX:
            # On a busy machine, a test that waits for something can time out. A test that also fails alone
            # shows a defect.
            print(f"\n== {name}: the failed tests again, alone", flush=True)
            second_results = Path(folder) / "second.xml"
            code = _call(BIN / "pytest", [*arguments, "-n0", f"--junit-xml={second_results}", *LAST_FAILED])
            summary += f"; the failed tests again, alone: {closing_line(second_results)}"
        step.set_outcome(code, summary)


def _call(program: Path, arguments: list[str]) -> int:
    return subprocess.run([program, *arguments], cwd=CHECKOUT, check=False).returncode


def _replace_process(program: Path, arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    os.execv(program, [str(program), *arguments])
