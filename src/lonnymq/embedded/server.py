"""The public class of the embedded PostgreSQL."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from lonnymq.embedded import account, cluster, data_folder, postmaster, reachable_paths, sharing, shutdown
from lonnymq.embedded.discovery import binaries, major_version
from lonnymq.embedded.embedded_errors import NotRunning, StillInUse, WrongVersion

StopMode = Literal["smart", "fast", "immediate"]


class Server:
    """A PostgreSQL server on a data folder, listening on loopback and on a socket.

    Several processes may use one folder at the same time: the first one starts the server, with its
    settings, the others use the same server, and the last one that calls `stop` or exits stops it. It works
    for root too.
    """

    def __init__(
        self,
        data_dir: Path | str,
        *,
        bin_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self._bin_dir = bin_dir
        self._settings = dict(settings or {})
        self._use: sharing.ServerUse | None = None
        self._folder: data_folder.Folder | None = None

    def start(self) -> None:
        """Start the server, or use the one that is already running on the data folder."""
        if self._use is not None:
            return
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with shutdown.uninterrupted(), sharing.exclusive(self.data_dir):
            self._use = sharing.ServerUse(self.data_dir)
            shutdown.at_exit(self.stop)
            try:
                self._join_or_start()
            except BaseException:
                self._leave("immediate")
                raise

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop using the server, and stop it if no other process uses it."""
        if self._use is None:
            return
        with shutdown.uninterrupted(), sharing.exclusive(self.data_dir):
            self._leave(mode)

    def kill(self) -> None:
        """Kill the server with SIGKILL, as in a crash. Its other processes notice and exit."""
        self._running()
        postmaster.kill(self._located())

    def erase(self) -> None:
        """Stop the server and remove the data folder. Raises StillInUse if another process uses it."""
        self.stop("immediate")
        if not self.data_dir.exists():
            return
        with shutdown.uninterrupted(), sharing.exclusive(self.data_dir):
            use = sharing.ServerUse(self.data_dir)
            try:
                if not use.is_last():
                    raise StillInUse(
                        f"another process uses the server on {self.data_dir}", "stop that process first"
                    )
                folder = data_folder.locate(self.data_dir, account.for_server())
                postmaster.kill_and_clean_up(folder)
                folder.erase()
            finally:
                use.end()

    @property
    def pid(self) -> int:
        """The process id of the postmaster. Raises NotRunning if it is not running."""
        return self._running().pid

    @property
    def port(self) -> int:
        """The port on 127.0.0.1."""
        return self._running().port

    @property
    def socket_dir(self) -> Path:
        """The folder of its socket."""
        return self._running().socket_dir

    @property
    def password(self) -> str:
        """The superuser's password, created with the data folder."""
        return self._located().password()

    @property
    def psql_env(self) -> dict[str, str]:
        """Environment variables for psql, pg_dump and other libpq programs."""
        return {
            "PGHOST": postmaster.HOST,
            "PGPORT": str(self.port),
            "PGUSER": cluster.SUPERUSER,
            "PGPASSWORD": self.password,
            "PGDATABASE": "postgres",
        }

    def dsn(
        self,
        dbname: str = "postgres",
        user: str = cluster.SUPERUSER,
        *,
        over: Literal["tcp", "socket"] = "tcp",
    ) -> str:
        """An address for libpq, psycopg, asyncpg and SQLAlchemy. For the superuser it contains the
        password.
        """
        login = quote(user, safe="")
        if user == cluster.SUPERUSER:
            login += ":" + quote(self.password, safe="")
        if over == "socket":
            place = f"{login}@:{self.port}/{quote(dbname, safe='')}"
            return f"postgresql://{place}?host={quote(str(self.socket_dir), safe='')}"
        return f"postgresql://{login}@{postmaster.HOST}:{self.port}/{quote(dbname, safe='')}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _join_or_start(self) -> None:
        runs_as = account.for_server()
        self._folder = data_folder.prepare(self.data_dir, runs_as)
        self._bin_dir = reachable_paths.reachable_binaries(self._suitable_binaries(self._folder), runs_as)
        if postmaster.find(self._folder) is None:
            durable = self._settings.get("fsync") != "off"
            cluster.create_cluster(self._folder, self._bin_dir, durable=durable)
            postmaster.start(self._folder, self._bin_dir, self._settings)

    def _suitable_binaries(self, located: data_folder.Folder) -> Path:
        made_by = located.made_by_version
        if self._bin_dir is None:
            return binaries(made_by)
        version = major_version(self._bin_dir)
        if made_by not in {None, version}:
            raise WrongVersion(
                f"the data in {self.data_dir} is of PostgreSQL {made_by}, but the binaries are of {version}",
                f"use bin_dir=binaries({made_by}), or another data folder",
            )
        return self._bin_dir

    def _leave(self, mode: StopMode) -> None:
        use, self._use = self._use, None
        shutdown.forget(self.stop)
        if use is None:
            return
        try:
            if self._folder is not None and self._bin_dir is not None and use.is_last():
                postmaster.stop(self._folder, self._bin_dir, mode)
        finally:
            use.end()

    def _not_running(self) -> NotRunning:
        return NotRunning(
            f"PostgreSQL is not running on {self.data_dir}", "call start() first, or use `with Server(...)`"
        )

    def _located(self) -> data_folder.Folder:
        if self._folder is None:
            raise self._not_running()
        return self._folder

    def _running(self) -> postmaster.Postmaster:
        found = postmaster.find(self._located())
        if found is None:
            raise self._not_running()
        return found
