"""./run chaos: see chaos/__init__.py."""

import signal
import sys

from rich.console import Console
from rich.table import Table

from chaos.broken_engines import BROKEN
from chaos.options import from_arguments
from chaos.report import write
from chaos.run import Result, Run, as_json, error_counts


def main(arguments: list[str]) -> int:
    """0: all rules hold. 1: some do not. With a broken engine the other way round."""
    options = from_arguments(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that it cleans up
    console = Console(stderr=True)
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
        return 0 if result.holds else 1
    is_refuted = bool(set(BROKEN[options.engine].refuted_by) & set(result.refuted))
    console.print("the broken engine was refuted" if is_refuted else "[red]the broken engine was not refuted")
    return 0 if is_refuted else 1


def _show(result: Result, console: Console) -> None:
    table = Table("rule", "what must hold", "judged", "broken", "")
    for v in result.verdicts:
        style = "red" if not v.holds else "dim" if v.judged == 0 else ""
        table.add_row(v.rule, v.title, f"{v.judged:,}", f"{v.broken:,}", v.note, style=style)
    console.print(table)
    for v in result.verdicts:
        for example in v.examples:
            console.print(f"  {v.rule}: {example}", style="red")
    for failure in result.failures:
        console.print(failure, style="red")
    for name, reason in result.skipped.items():
        console.print(f"{name} was left out: it {reason}")
    console.print(", ".join(f"{value:,} {name}" for name, value in result.counts.items()))
    console.print("errors by SQLSTATE:", error_counts(result))
    console.print({name: round(value, 1) for name, value in result.seconds.items()})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
