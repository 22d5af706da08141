"""Finds the processes of a cluster's server.

A process id alone is not enough: it may be that of a zombie, or of another program since a restart. A
server's processes run the program `postgres` in the cluster's folder, and /proc shows both. Without /proc,
ps shows the command line, which contains the folder for the server's first process, the postmaster.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
INIT = 1


def can_list_all() -> bool:
    """Whether `of_cluster` works. Otherwise `is_server` recognises a postmaster only."""
    return (PROC / "self" / "cwd").exists()


def is_server(pid: int, cluster: Path) -> bool:
    if pid <= INIT:  # signals to 0 or less go to process groups, or to all processes
        return False
    if not can_list_all():
        listed = subprocess.run(
            ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return "postgres" in listed.stdout and str(cluster) in listed.stdout
    try:
        folder = (PROC / str(pid) / "cwd").readlink()
        program = (PROC / str(pid) / "exe").readlink()
    except OSError:
        return False
    return folder == cluster and program.name.startswith("postgres")


def of_cluster(cluster: Path) -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit() and is_server(int(entry.name), cluster):
            yield int(entry.name)
