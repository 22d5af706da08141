"""The Python files of an app, and whether one has changed: for `lonnymq worker --reload`."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

SKIPPED = {"__pycache__", "node_modules", "site-packages"}
SUFFIX = ".py"


class SourceFiles:
    """The Python files below `roots`, which are folders or files. Hidden folders and virtual environments are
    left out.
    """

    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = list(roots)
        self._known = self._modified()

    @classmethod
    def of_app(cls, module_name: str) -> SourceFiles:
        """Those of the current folder, and of the app's package if that is elsewhere. Nothing is imported."""
        roots = {Path.cwd()}
        found = importlib.util.find_spec(module_name.partition(".")[0])
        if found is not None:
            places = found.submodule_search_locations or [found.origin or ""]
            roots |= {Path(place) for place in places if Path(place).exists()}
        return cls(roots)

    def changed(self) -> Path | None:
        """A file that was changed, added or removed since the last call; None if there is none."""
        before, self._known = self._known, self._modified()
        return next((path for path, _ in before.items() ^ self._known.items()), None)

    def _modified(self) -> dict[Path, tuple[int, int]]:
        found = {}
        for path in self._paths():
            with suppress(OSError):  # removed meanwhile
                status = path.stat()
                found[path] = status.st_mtime_ns, status.st_size
        return found

    def _paths(self) -> Iterator[Path]:
        for root in self._roots:
            if root.is_file():
                yield root
            for name, below, files in os.walk(root):
                folder = Path(name)
                below[:] = [each for each in below if _is_searched(folder / each)]
                yield from (folder / file for file in files if file.endswith(SUFFIX))


def _is_searched(folder: Path) -> bool:
    name = folder.name
    return not (name.startswith(".") or name in SKIPPED or (folder / "pyvenv.cfg").exists())
