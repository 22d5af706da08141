"""Which processes belong to a cluster.

A process id alone says little: it may be a zombie's, or a stranger's since the machine restarted. PostgreSQL
runs the program `postgres` and stands in the cluster's folder, and /proc tells both. Where there is no /proc,
ps tells the command, which names the folder for the first process of a server, the postmaster.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
INIT = 1


def can_tell_all() -> bool:
    """Whether `of_cluster` finds every process, and not just a postmaster when asked about it."""
    return (PROC / "self" / "cwd").exists()


def belongs(pid: int, cluster: Path) -> bool:
    if pid <= INIT:  # to signals, 0 and less mean groups of processes, or all there are
        return False
    if not can_tell_all():
        said = subprocess.run(
            ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        return "postgres" in said.stdout and str(cluster) in said.stdout
    try:
        folder = (PROC / str(pid) / "cwd").readlink()
        program = (PROC / str(pid) / "exe").readlink()
    except OSError:
        return False
    return folder == cluster and program.name.startswith("postgres")


def of_cluster(cluster: Path) -> Iterator[int]:
    for entry in PROC.iterdir():
        if entry.name.isdigit() and belongs(int(entry.name), cluster):
            yield int(entry.name)
