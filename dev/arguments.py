"""Values of the options of ./run: each is checked before anything starts, and refused by one sentence."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from math import isfinite
from pathlib import Path


def whole_number(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least:,} to {most:,}")
        return number

    return parse


def above_zero(most: float) -> Callable[[str], float]:
    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = 0.0
        if not (isfinite(number) and 0 < number <= most):
            raise ArgumentTypeError(f"{text!r} is not a number above 0, and at most {most:,g}")
        return number

    return parse


def writable_file(text: str) -> Path:
    """A run that takes minutes must not find out at its end that it cannot write its result."""
    path = Path(text)
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()
    except OSError as error:
        raise ArgumentTypeError(f"cannot write {text!r}: {error.strerror}; name another file") from None
    return path


def new_folder(text: str) -> Path:
    path = Path(text)
    try:
        path.mkdir(parents=True)
        path.rmdir()
    except FileExistsError:
        raise ArgumentTypeError(f"{text!r} exists; name a new folder") from None
    except OSError as error:
        raise ArgumentTypeError(f"cannot make {text!r}: {error.strerror}; name another folder") from None
    return path
