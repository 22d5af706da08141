"""./run chaos: see chaos/__init__.py."""

import signal
import sys
from typing import NoReturn

from rich.console import Console
from rich.table import Table

from chaos.broken_engines import BROKEN
from chaos.options import from_arguments
from chaos.report import write
from chaos.run import Result, Run, as_json, error_counts, summary


def main(arguments: list[str]) -> int:
    """0: all rules hold. 1: some do not. With a broken engine the other way round."""
    options = from_arguments(arguments)
    console = Console(stderr=True)

    def stop(number: int, _frame: object) -> NoReturn:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, lambda *_: None)  # a second one would leave processes and a mount behind
        console.print("stopping without a verdict; faults that have begun end first: up to a minute")
        sys.exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    console.print(f"seed {options.seed}")
    with console.status("starting") as status:
        result = Run(options, status.update).run()
    _show(result, console)
    if options.report is not None:
        write(result, options.report)
        console.print(f"report: {options.report}")
    if options.json:
        print(as_json(result))
    if not options.engine:
        console.print(summary(result), style="" if result.holds else "red", markup=False)
        return 0 if result.holds else 1
    is_refuted = bool(set(BROKEN[options.engine].refuted_by) & set(result.refuted))
    expected = ", ".join(sorted(BROKEN[options.engine].refuted_by))
    console.print(
        f"the judge refuted the broken engine, as it must: {', '.join(sorted(set(result.refuted)))} broken"
        if is_refuted
        else f"[red]the judge did not refute the broken engine: it must find one of {expected} broken"
    )
    return 0 if is_refuted else 1


def _show(result: Result, console: Console) -> None:
    table = Table("invariant", "what must hold", "cases", "broken", "")
    for v in result.verdicts:
        style = "red" if not v.holds else "dim" if v.judged == 0 else ""
        table.add_row(v.rule, v.title, f"{v.judged:,}", f"{v.broken:,}", v.note, style=style)
    console.print(table)
    for v in result.verdicts:
        for example in v.examples:
            console.print(f"  {v.rule}: {example}", style="red")
    for failure in result.failures:
        console.print(failure, style="red", markup=False)
    for name, reason in result.skipped.items():
        console.print(f"{name} was left out: it {reason}")
    console.print(", ".join(f"{value:,} {name}" for name, value in result.counts.items()))
    errors = (f"{count:,} with {state}" for state, count in error_counts(result).items())
    console.print("calls that failed:", ", ".join(errors) or "none")
    console.print("seconds:", ", ".join(f"{value:.1f} {name}" for name, value in result.seconds.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
