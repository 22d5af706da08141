"""The layout of the data folder.

lock, users     locked by processes that start or stop the server, or use it (see sharing) password
the superuser's, readable only by the folder's owner postgres/       the server's files: data/ (the
cluster), run/ (the socket), log; this is a symbolic link if the
                server's account cannot reach the folder (see reachable_paths)
"""

import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lonnymq.embedded.account import Account
from lonnymq.embedded.reachable_paths import relocated_storage

# A socket's address is limited to 108 bytes on Linux and 104 on macOS, including the name of the socket file.
SOCKET_DIR_MAX_BYTES = 103 - len("/.s.PGSQL.65535")


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
        """The major version of the server that created the cluster; None if there is no cluster yet."""
        try:
            return int((self.cluster / "PG_VERSION").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def password(self) -> str:
        return (self.path / "password").read_text(encoding="ascii")

    def socket_dir(self) -> Path:
        """A folder whose path is short enough for a socket's address, and that other accounts cannot open."""
        run = self.storage / "run"
        if len(os.fsencode(run)) <= SOCKET_DIR_MAX_BYTES:
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
    """Create what is missing. The caller has the folder's lock."""
    if not account.is_ours:
        # Let others pass through the folder itself, but never through its parents.
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
