"""What ./run does. Only the standard library is at hand here: the environment is what this makes."""

import os
import sys
from collections.abc import Callable

from dev import tasks
from dev.environment import SetupFailed, make_ready

HELP = """\
./run COMMAND

  test                   everything: checks, then the tests on PostgreSQL 18 and 15
  test --quick           without the slow tests and PostgreSQL 15
  test --long            with the long tests too, which take minutes each
  test PYTEST-ARGUMENTS  only these tests, for example: ./run test tests/unit -k embedded
  check                  lint, format, types, layers
  demo                   LonnyMQ at work on a PostgreSQL of its own
  bench WHAT             measurements: engine, client, spark or worker; more with --help
  docs                   the documentation as a site, to be opened from the disk
  lonnymq ...            the command line of this checkout
  lock                   renew the locked requirements

The first command makes .venv in the checkout; after that, they start at once.
"""

COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "bench": tasks.bench,
    "check": tasks.check,
    "demo": tasks.demo,
    "docs": tasks.docs,
    "lock": tasks.lock,
    "lonnymq": tasks.lonnymq,
    "test": tasks.test,
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(HELP, end="")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"./run: there is no command {name!r}\n\n{HELP}", end="", file=sys.stderr)
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
    # Whoever is in an environment of their own when they call ./run gets this checkout's all the same.
    for variable in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"):
        os.environ.pop(variable, None)
    sys.exit(main(sys.argv[1:]))
