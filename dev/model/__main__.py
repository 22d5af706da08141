"""./run model, once the environment is there."""

import argparse
import json
import signal
import sys
from dataclasses import dataclass

from dev.arguments import whole_number
from dev.model import tlc
from dev.model.description import Check, ModelError, Mutation, read_checks, read_mutations
from dev.progress import Steps

SIZES = ("small", "large")
WORKERS_MAX = 64


@dataclass(frozen=True)
class Row:
    name: str
    kind: str  # "check" or "mutation"
    verdict: str
    is_good: bool
    states: int
    depth: int
    steps: int  # of the counterexample
    seconds: float


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./run model", description="Check the dispatcher's model with TLC: docs/model.md explains it."
    )
    parser.add_argument("--size", choices=SIZES, default="small",
                        help="small: two minutes; large: far longer, as two of its checks were never "
                        "run to the end (default: small)")  # fmt: skip
    parser.add_argument(
        "--check", action="append", default=[], metavar="NAME", help="only this check; may be repeated"
    )
    parser.add_argument("--mutation", action="append", default=[], metavar="NAME",
                        help="only this mutation; may be repeated")  # fmt: skip
    parser.add_argument(
        "--workers", type=whole_number(1, WORKERS_MAX), default=2, help="threads of TLC (default: 2)"
    )
    parser.add_argument("--trace", action="store_true", help="print TLC's counterexamples")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    options = parser.parse_args(arguments)
    try:
        checks, mutations = _chosen(options)
        rows = _run_all(checks, mutations, options)
    except ModelError as error:
        print(f"./run model: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    if options.json:
        print(json.dumps([vars(row) for row in rows], indent=2))
    else:
        _print(rows)
    return 0 if all(row.is_good for row in rows) else 1


def _chosen(options: argparse.Namespace) -> tuple[list[Check], list[Mutation]]:
    checks, mutations = read_checks(options.size), read_mutations()
    for known, names, what, where in (
        (checks, options.check, "check", f" in size {options.size}"),
        (mutations, options.mutation, "mutation", ""),
    ):
        for name in names:
            if name not in known:
                raise ModelError(f"there is no {what} {name!r}{where}; choose from: {', '.join(known)}")
    if options.check or options.mutation:
        return [checks[name] for name in options.check], [mutations[name] for name in options.mutation]
    return list(checks.values()), list(mutations.values())


def _run_all(checks: list[Check], mutations: list[Mutation], options: argparse.Namespace) -> list[Row]:
    rows = []
    steps = Steps(total=len(checks) + len(mutations))
    with steps.reporting():
        for check in checks:
            steps.begin(f"check {check.name}: {check.about}")
            found = tlc.run(check, workers=options.workers, on_progress=steps.update)
            if found.violated or options.trace:
                print(found.output, file=sys.stderr)
            verdict = f"{found.violated} does not hold" if found.violated else "holds"
            rows.append(_row(check.name, "check", verdict, found, is_good=not found.violated))
        for mutation in mutations:
            steps.begin(f"mutation {mutation.name}: {mutation.about}")
            text = mutation.text(tlc.module_text(mutation.check.module))
            found = tlc.run(mutation.check, text, workers=options.workers, on_progress=steps.update)
            if options.trace:
                print(found.output, file=sys.stderr)
            is_refuted = found.violated == mutation.refutes
            verdict = f"refuted by {found.violated}" if is_refuted else f"NOT refuted by {mutation.refutes}"
            rows.append(_row(mutation.name, "mutation", verdict, found, is_good=is_refuted))
        steps.finish()
    return rows


def _row(name: str, kind: str, verdict: str, found: tlc.Found, *, is_good: bool) -> Row:
    return Row(name, kind, verdict, is_good, found.states, found.depth, found.steps, round(found.seconds, 1))


def _print(rows: list[Row]) -> None:
    width = max(len(row.name) for row in rows)
    print(f"{'':6}  {'':{width}}  {'states':>10}  {'depth':>5}  {'trace':>5}  {'time':>8}")
    for row in rows:
        steps = f"{row.steps}" if row.steps else ""
        print(
            f"{'ok' if row.is_good else 'FAILED':6}  {row.name:{width}}  {row.states:10,}  {row.depth:5}  "
            f"{steps:>5}  {row.seconds:6.1f} s  {row.verdict}"
        )


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that TLC and its files are removed
    sys.exit(main(sys.argv[1:]))
