"""Making a database cluster."""

import os
import shutil
from pathlib import Path

from lonnymq.embedded.data_folder import Folder
from lonnymq.embedded.embedded_errors import InitFailed

SUPERUSER = "postgres"
INIT_TIMEOUT = 120.0


def make_cluster(folder: Folder, bin_dir: Path, *, durable: bool) -> None:
    """Run initdb beside the final place and rename, so that a cluster is either whole or not there."""
    if folder.cluster.exists():
        return
    unfinished = folder.storage / "data.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    password_file = _password_for_initdb(folder)
    arguments: list[str | Path] = [
        bin_dir / "initdb",
        f"--pgdata={unfinished}",
        f"--username={SUPERUSER}",
        f"--pwfile={password_file}",
        # On loopback and in the socket's folder alike: another local account must not get in.
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        *([] if durable else ["--no-sync"]),
    ]
    try:
        outcome = folder.account.run(arguments, timeout=INIT_TIMEOUT)
    finally:
        password_file.unlink(missing_ok=True)
    if outcome.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise InitFailed(f"initdb could not make a database cluster in {folder.path}:\n{outcome.stdout}")
    unfinished.rename(folder.cluster)


def _password_for_initdb(folder: Folder) -> Path:
    """Initdb reads the password as the server's account, who cannot read ours."""
    path = folder.storage / "password"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(folder.password() + "\n")
    folder.account.give(path)
    return path
