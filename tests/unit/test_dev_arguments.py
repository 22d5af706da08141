"""Options of ./run that are refused before anything starts."""

from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from dev.arguments import above_zero, new_folder, whole_number, writable_file


@pytest.mark.parametrize("text", ["0", "-5", "51", "1e3", "abc", "", "nan", "9" * 40])
def test_whole_numbers_that_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"is not a whole number from 1 to 50$"):
        whole_number(1, 50)(text)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "-inf", "abc", "", "1e9", "60.5"])
def test_numbers_that_are_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"is not a number above 0, and at most 60$"):
        above_zero(60)(text)


def test_numbers() -> None:
    assert (whole_number(1, 50)("50"), above_zero(60)("0.3")) == (50, 0.3)


def test_a_file_is_left_as_it_was(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "folder" / "new"
    old.write_text("kept")
    assert (writable_file(str(old)), writable_file(str(new))) == (old, new)
    assert old.read_text() == "kept"
    assert not new.exists()


@pytest.mark.parametrize("name", ["", "file/below.html", "/proc/nobody/x.html"])
def test_files_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArgumentTypeError, match=r"cannot write .*; name another file"):
        writable_file(str(tmp_path / name))


def test_a_new_folder(tmp_path: Path) -> None:
    assert not new_folder(str(tmp_path / "new")).exists()
    with pytest.raises(ArgumentTypeError, match=r"exists; name a new folder"):
        new_folder(str(tmp_path))
    with pytest.raises(ArgumentTypeError, match=r"cannot make .*; name another folder"):
        new_folder("/proc/nobody/x")
