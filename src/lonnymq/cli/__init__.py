"""The command line. Each command group has its file; what a command needs is imported when it runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. `--debug` is taken wherever it stands; an error is one sentence without it."""
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
