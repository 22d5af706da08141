"""./run suites, with a small source package that the test makes."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from dev.suites import pythons
from dev.suites.__main__ import Places, main
from dev.suites.description import NotApplicable, SuiteError, read_suites
from dev.suites.outcomes import Case, Outcome, read_results
from dev.suites.page import write
from tests.examples.page import CHECKOUT, blocks

THEIR_TESTS = """
import os, psycopg, pytest
import added_by_us

def test_sees_the_schema():
    with psycopg.connect(os.environ["LONNYMQ_SUITE_DSN"]) as connection:
        connection.execute("SELECT * FROM lonnymq.queue_stats()")

@pytest.mark.parametrize("queue", ["a", "b"])
def test_fanout(queue):
    raise ConnectionError("no exchange")

def test_hangs():
    while True: pass

@pytest.mark.skip(reason="for Windows")
def test_skipped(): pass

def test_fails():
    assert 1 == 2, "one is not two"
"""
COMMAND = '["{python}", "-m", "pytest", "-c", "/dev/null", "-p", "leave_out", "--junit-xml={results}"]'


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(packages))
    places = Places(tmp_path / "suites", tmp_path / "cache", tmp_path / "suites.md")
    places.page.write_text("before\n<!-- begin suites -->\n<!-- end suites -->\nafter\n", encoding="utf-8")
    return places


def make_package(places: Places) -> str:
    """Make the source package `theirs` and return its hash."""
    files = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n",
        "setup.py": "raise SystemExit('pip ran setup.py')",
        "test_theirs.py": THEIR_TESTS,
    }
    path = places.page.parent / "packages" / "theirs-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"theirs-1.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return hashlib.sha256(path.read_bytes()).hexdigest()


def add_suite(places: Places, name: str, sha256: str, **fields: str) -> None:
    folder = places.suites / name
    folder.mkdir(parents=True)
    (folder / "added_by_us.py").touch()
    texts = {
        "title": f'"Their {name}"',
        "source": f'{{ package = "theirs", version = "1.0", sha256 = "{sha256}" }}',
        "python": '["3.11"]',
        "command": COMMAND,
        "tests": "[]",
        "short": '["test_theirs.py"]',
    }
    lines = [f"{field} = {text}\n" for field, text in (texts | fields).items()]
    (folder / "suite.toml").write_text("".join(lines), encoding="utf-8")


def not_applicable(*entries: str) -> str:
    return "[" + ", ".join("{" + entry + "}" for entry in entries) + "]"


@pytest.mark.slow
def test_outcomes(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    good = make_package(places)
    add_suite(
        places,
        "listed",
        good,
        not_applicable=not_applicable(
            'test = "test_theirs::test_fanout[*]", reason = "no fanout"',
            'test = "test_theirs::test_hangs", reason = "hangs", run = false',
            'test = "test_theirs::test_sees_*", reason = "wrong"',
        ),
    )
    add_suite(places, "hanging", good, timeout_s="2")
    add_suite(places, "hash", "0" * 64)
    add_suite(places, "crashing", good, command='["{python}", "-c", "raise SystemExit(\'broken\')"]')
    assert main(["--short", "--json"], places) == 1
    found: dict[str, dict[str, Any]] = {row["suite"]: row for row in json.loads(capsys.readouterr().out)}
    listed = found["listed"]
    assert listed["passed"] == 0
    assert [case["text"] for case in listed["not_applicable"]] == ["no fanout", "no fanout", "hangs"]
    assert listed["skipped"] == [{"test": "test_theirs::test_skipped", "text": "for Windows"}]
    (failure,) = listed["failed"]
    assert failure["test"] == "test_theirs::test_fails"
    assert "one is not two" in failure["text"]
    (wrong,) = listed["wrong_entries"]
    assert wrong.startswith("test_theirs::test_sees_the_schema passes, but")
    assert listed["error"] == ""
    assert found["hanging"]["error"].startswith("did not finish within 2 s.")
    assert "could not download the source package of theirs 1.0" in found["hash"]["error"]
    assert "DO NOT MATCH THE HASHES" in found["hash"]["error"]
    assert found["crashing"]["error"].startswith("the command ended with 1. Its last lines:\n    broken")
    assert "Their" not in places.page.read_text(encoding="utf-8")


def test_a_missing_python_is_left_out(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("CI", raising=False)
    add_suite(places, "listed", "0" * 64, python='["3.99"]')
    before = places.page.read_text(encoding="utf-8")
    assert main([], places) == 0
    assert places.page.read_text(encoding="utf-8") == before
    assert "Python 3.99 is not on this machine: its runs are left out" in capsys.readouterr().err
    monkeypatch.setenv("CI", "true")
    assert main([], places) == 1
    assert "needs Python 3.99, and found none of them" in capsys.readouterr().err


def test_finds_a_python_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind a program on the PATH that only says what is wrong."""
    script = "#!/bin/sh\necho 3.99"
    for name, text in (("broken", "#!/bin/sh\nexit 127"), ("good", script)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python3.99").write_text(text, encoding="ascii")
        (tmp_path / name / "python3.99").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/broken:{tmp_path}/good:/usr/bin:/bin")
    assert pythons.find_python("3.99") == tmp_path / "good" / "python3.99"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"title": "3"}, "title is not a str"),
        ({"tset": "[]"}, "no field tset"),
        ({"source": '{ package = "theirs" }'}, "source needs package, sha256, version"),
        ({"not_applicable": '[{ test = "a" }]'}, "each not_applicable needs test and reason"),
        ({"title": "="}, "suites/wrong/suite.toml: Invalid"),
    ],
)
def test_a_wrong_description_is_refused(places: Places, fields: dict[str, str], message: str) -> None:
    add_suite(places, "wrong", "0" * 64, **fields)
    with pytest.raises(SuiteError, match=message):
        read_suites(places.suites, [])


def test_the_description_in_the_guide_is_valid(places: Places) -> None:
    (block,) = [block for block in blocks(CHECKOUT / "docs" / "suites.md") if block.language == "toml"]
    (places.suites / "taskiq").mkdir(parents=True)
    (places.suites / "taskiq" / "suite.toml").write_text(block.code, encoding="utf-8")
    (suite,) = read_suites(places.suites, ["taskiq"])
    assert suite.short == ["tests/test_acks.py"]
    assert [entry.run for entry in suite.not_applicable] == [False]


def test_an_unknown_name_is_refused(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    add_suite(places, "listed", "0" * 64)
    assert main(["lsited"], places) == 1
    assert "no suite 'lsited'. The suites are: listed" in capsys.readouterr().err


def test_an_entry_that_matches_nothing_is_reported(tmp_path: Path) -> None:
    results = tmp_path / "results.xml"
    passed = "<testcase classname='a' name='b[1]'/>"
    results.write_text(f"<testsuite>{passed}{passed}</testsuite>", encoding="ascii")  # with a subtest
    entries = [NotApplicable("a::c[*]", "needs Redis", run=True)]
    selection, complete = Outcome("a", "1", "3.12"), Outcome("a", "1", "3.12")
    read_results(results, selection, entries, is_complete=False)
    assert selection.is_good
    read_results(results, complete, entries, is_complete=True)
    assert complete.wrong_entries == ["no test matches 'a::c[*]' of not_applicable. Remove the entry"]
    assert (complete.passed, complete.is_good) == (1, False)


def test_the_page_keeps_sections_of_other_suites(places: Places) -> None:
    add_suite(places, "one", "0" * 64, changes='["it waits longer"]')
    add_suite(places, "two", "0" * 64)
    suites = read_suites(places.suites, [])
    needs_redis = [Case("a::b", "needs Redis"), Case("a::c", "needs Redis")]
    outcomes = [
        Outcome("one", "1.0", "3.12", passed=7, not_applicable=needs_redis),
        Outcome("one", "1.0", "3.13", passed=8, not_applicable=needs_redis, failed=[Case("a::d", "boom")]),
        Outcome("two", "1.0", "3.12", passed=9),
    ]
    write(places.page, suites, outcomes)
    write(places.page, suites, [Outcome("two", "1.0", "3.13", passed=10)])
    write(places.page, suites, [Outcome("one", "1.0", "3.12", passed=1, error="did not finish")])
    text = places.page.read_text(encoding="utf-8")
    for line in (
        "before",
        "### Their one",
        "Changed for these runs:",
        "- it waits longer",
        "| Python 3.12 | 7 | 2 | 0 | 0 |",
        "| Python 3.13 | 8 | 2 | 0 | 1 |",
        "- needs Redis (2 tests)",
        "- `a::d`",
        "### Their two",
        "| Python 3.13 | 10 | 0 | 0 | 0 |",
        "after",
    ):
        assert f"\n{line}\n" in f"\n{text}"
    assert "| Python 3.12 | 9 |" not in text


def test_an_interrupt_leaves_the_page_as_it_was(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_half(path: Path, text: str, **_: str) -> None:
        with path.open("w", encoding="utf-8") as file:
            file.write(text[: len(text) // 2])
        raise KeyboardInterrupt

    add_suite(places, "one", "0" * 64)
    before = places.page.read_text(encoding="utf-8")
    monkeypatch.setattr(Path, "write_text", write_half)
    with pytest.raises(KeyboardInterrupt):
        write(places.page, read_suites(places.suites, []), [Outcome("one", "1.0", "3.12", passed=7)])
    assert places.page.read_text(encoding="utf-8") == before
