"""Makes wheels out of the packages installed here, so that pip can install them without an index."""

from __future__ import annotations

import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

LOCAL_FILES = {"INSTALLER", "REQUESTED", "direct_url.json"}


def fill(folder: Path, *needed: str) -> None:
    """Write wheels of these packages, and of all that they need, into the folder.

    lonnymq itself is left out: pip builds it.
    """
    wanted = [*map(Requirement, needed)]
    known = set()
    while wanted:
        requirement = wanted.pop()
        found = distribution(requirement.name)
        if str(requirement) in known:
            continue
        known.add(str(requirement))
        if requirement.name != "lonnymq":
            pack(found, folder)
        for text in found.requires or ():
            further = Requirement(text)
            extras = requirement.extras or {""}
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                wanted.append(further)


def pack(found: Distribution, folder: Path) -> None:
    name = found.metadata["Name"].replace("-", "_")
    about = found.read_text("WHEEL") or ""
    tags = [line.split()[1].split("-") for line in about.splitlines() if line.startswith("Tag: ")]
    tag = "-".join(".".join(sorted(set(part))) for part in zip(*tags, strict=True))
    wheel = folder / f"{name}-{found.version}-{tag}.whl"
    if wheel.exists():
        return
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts and file.name not in LOCAL_FILES:
                archive.write(str(file.locate()), str(file))
