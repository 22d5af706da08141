"""What the data folder holds.

lock, users     who may start or stop, who is using the server (see sharing)
password        of the superuser, readable by its owner alone
postgres/       the server's own: data/ (the cluster), run/ (the socket), log
                a symbolic link when the server's account cannot reach the folder (see reach)
"""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lonnymq.embedded.account import Account
from lonnymq.embedded.reach import relocated_storage

# A socket's address holds 108 bytes on Linux and 104 on macOS, the name of PostgreSQL's socket file included.
LONGEST_SOCKET_DIR = 103 - len("/.s.PGSQL.65535")


@dataclass(frozen=True)
class Folder:
    path: Path
    storage: Path
    account: Account

    @property
    def cluster(self) -> Path:
        return self.storage / "data"

    @property
    def log(self) -> Path:
        return self.storage / "log"

    @property
    def made_by_version(self) -> int | None:
        """The major version of the server that made the cluster; None when there is no cluster yet."""
        try:
            return int((self.cluster / "PG_VERSION").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def password(self) -> str:
        return (self.path / "password").read_text(encoding="ascii")

    def socket_dir(self) -> Path:
        """Short enough for a socket's address, and closed to other accounts."""
        run = self.storage / "run"
        if len(os.fsencode(run)) <= LONGEST_SOCKET_DIR:
            run.mkdir(mode=0o700, exist_ok=True)
        else:
            run = Path(tempfile.mkdtemp(prefix="lonnymq-", dir="/tmp"))
        self.account.give(run)
        return run

    def erase(self) -> None:
        shutil.rmtree(self.storage, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)


def locate(data_dir: Path, account: Account) -> Folder:
    return Folder(path=data_dir, storage=(data_dir / "postgres").resolve(), account=account)


def prepare(data_dir: Path, account: Account) -> Folder:
    """Make what is missing. Called under the folder's lock."""
    if not account.is_ours:
        # Only the folder itself, which is ours, is opened: never its parents.
        data_dir.chmod(data_dir.stat().st_mode | 0o001)
    storage = data_dir / "postgres"
    if not storage.exists():
        storage.unlink(missing_ok=True)
        if account.can_reach(data_dir):
            storage.mkdir(mode=0o700)
        else:
            storage.symlink_to(relocated_storage())
        account.give(storage.resolve())
    password = data_dir / "password"
    if not password.exists():
        unfinished = data_dir / "password.new"
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
        unfinished.write_text(secrets.token_urlsafe(24), encoding="ascii")
        unfinished.rename(password)
    return locate(data_dir, account)
