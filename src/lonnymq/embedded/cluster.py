"""Creates a database cluster."""

import os
import shutil
from pathlib import Path

from lonnymq.embedded.data_folder import Folder
from lonnymq.embedded.embedded_errors import InitFailed

SUPERUSER = "postgres"
INIT_TIMEOUT_S = 120.0


def create_cluster(folder: Folder, bin_dir: Path, *, durable: bool) -> None:
    """Run initdb in another folder and rename that, so that a cluster is either complete or missing."""
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
        # On loopback and on the socket, so that no other local account gets in.
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        *([] if durable else ["--no-sync"]),
    ]
    try:
        outcome = folder.account.run(arguments, timeout=INIT_TIMEOUT_S)
    finally:
        password_file.unlink(missing_ok=True)
    if outcome.returncode != 0:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise InitFailed(f"initdb could not create a database cluster in {folder.path}:\n{outcome.stdout}")
    unfinished.rename(folder.cluster)


def _password_for_initdb(folder: Folder) -> Path:
    """A copy that the server's account, which runs initdb, can read."""
    path = folder.storage / "password"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(folder.password() + "\n")
    folder.account.give(path)
    return path
