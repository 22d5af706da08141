"""The command line. Each group of commands has its own module, which imports what it needs when it runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. An error is printed as one line, or with `--debug`, at any position, as a
    traceback.
    """
    arguments = sys.argv[1:]
    try:
        from lonnymq.cli.all_commands import app

        app(args=[argument for argument in arguments if argument != "--debug"])
    except Exception as error:
        if "--debug" in arguments:
            raise
        from lonnymq.cli.failure import exit_code, sentence

        sys.stderr.write(f"lonnymq: {sentence(error)}\n")
        sys.exit(exit_code(error))
