"""docs/sql.md's walk through the queue, in a real psql."""

import re
import subprocess
from pathlib import Path

from lonnymq.embedded import binaries

PAGE = Path(__file__).parents[2] / "docs" / "sql.md"
STEP = re.compile(r"```sql\n(?P<commands>.*?)```\n```text\n(?P<output>.*?)```", re.DOTALL)


def test_it_shows_what_the_page_shows(dsn: str) -> None:
    steps = list(STEP.finditer(PAGE.read_text()))
    assert len(steps) > 4
    marks = [f"\\echo step {n}\n" for n in range(len(steps))]
    script = "".join(mark + step["commands"] for mark, step in zip(marks, steps, strict=True))
    run = subprocess.run(
        [binaries() / "psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    shown = re.split(r"^step \d+\n", run.stdout, flags=re.MULTILINE)[1:]
    for step, output in zip(steps, shown, strict=True):
        assert output.strip("\n") == step["output"].strip("\n"), step["commands"]
