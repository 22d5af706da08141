"""The command line of ./run.

It imports only the standard library, because it makes the environment that has the other packages.
"""

import os
import sys
from collections.abc import Callable

from dev import tasks
from dev.environment import SetupFailed, make_ready

HELP = """\
./run COMMAND

  test                   run the checks, then the tests on PostgreSQL 18, with Spark, and on PostgreSQL 15
  test --quick           run the checks and the quick tests, on PostgreSQL 18 only
  test --long            include the long tests, which take minutes each
  test PYTEST-ARGUMENTS  run only these tests, for example: ./run test tests/unit -k embedded
  check                  run the checks: lint, format, types, layers
  demo                   show LonnyMQ at work on a PostgreSQL that it starts
  bench WHAT             measure the engine, client, worker, spark or the field; ./run bench --help says more
  chaos                  run clients and a server under faults, and judge them: two minutes; --help says more
  soak                   run mixed traffic for half an hour, and judge whether everything stays flat
  suites NAME ...        run the frameworks' own test suites on our integrations, and write docs/suites.md
  model                  check the dispatcher's model with TLC: two minutes; ./run model --help says more
  docs                   build the documentation as a site that a browser can open from disk
  lonnymq ...            run the lonnymq command of this checkout
  lock                   compile the locked requirements again

The first command creates .venv in the checkout, which takes a few minutes; later ones start at once.
"""

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "bench": tasks.bench,
    "chaos": tasks.chaos,
    "check": tasks.check,
    "demo": tasks.demo,
    "docs": tasks.docs,
    "lock": tasks.lock,
    "lonnymq": tasks.lonnymq,
    "soak": tasks.soak,
    "model": tasks.model,
    "suites": tasks.suites,
    "test": tasks.test,
}

HELPS = {"-h", "--help"}
# The others have a help of their own.
WITHOUT_HELP = {"check", "docs", "lock", "test"}
WITHOUT_ARGUMENTS = {"check", "docs"}


def main(arguments: list[str]) -> int:
    name, *rest = arguments or ["help"]
    if name in {"help", *HELPS} or (name in WITHOUT_HELP and HELPS & set(rest)):
        print(HELP, end="")
        return 0
    if name not in COMMANDS:
        print(f"./run: no command {name!r}\n\n{HELP}", end="", file=sys.stderr)
        return 2
    if name in WITHOUT_ARGUMENTS and rest:
        print(f"./run {name} takes no arguments, and got {' '.join(rest)!r}", file=sys.stderr)
        return 2
    try:
        make_ready()
        return COMMANDS[name](rest)
    except SetupFailed as error:
        print(f"./run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    # ./run uses the environment of this checkout, even if another one is active.
    for variable in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        os.environ.pop(variable, None)
    # Tests start hundreds of Python programs, which would all compile their modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.exit(main(sys.argv[1:]))
