"""The account that PostgreSQL's programs run as.

PostgreSQL refuses to run as root, so for root its programs run as `nobody`.
"""

import os
import pwd
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

KEPT_VARIABLES = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "TZ")


@dataclass(frozen=True)
class Account:
    """`is_ours`: it is the account of this process."""

    name: str
    uid: int
    gid: int
    is_ours: bool

    def run(self, arguments: Sequence[str | Path], timeout: float) -> subprocess.CompletedProcess[str]:
        """Run a program as this account, outside the current folder and without PG* variables."""
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        return subprocess.run(
            list(arguments),
            cwd="/",
            env=environment | {"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            umask=0o077,
            user=None if self.is_ours else self.uid,
            group=None if self.is_ours else self.gid,
            extra_groups=None if self.is_ours else [],
        )

    def can_reach(self, folder: Path) -> bool:
        return self.is_ours or all(
            path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents) if path.exists()
        )

    def give(self, path: Path) -> None:
        if not self.is_ours:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)


def for_server() -> Account:
    if os.geteuid() != 0:
        return Account(name=str(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), is_ours=True)
    nobody = pwd.getpwnam("nobody")
    return Account(name=nobody.pw_name, uid=nobody.pw_uid, gid=nobody.pw_gid, is_ours=False)
