"""Counts what the journals say while they grow, for the progress on the terminal."""

import re
from pathlib import Path

COUNT = re.compile(rb'"(made|got)":(\d+)')


class Tally:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self.created = 0
        self.delivered = 0

    def update(self) -> None:
        for path in self._folder.glob("*.jsonl"):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                new = file.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for name, count in COUNT.findall(whole):
                if name == b"made":
                    self.created += int(count)
                else:
                    self.delivered += int(count)
