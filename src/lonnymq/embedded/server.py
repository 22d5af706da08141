"""The server that a program asks for."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

from lonnymq.embedded import account, cluster, data_folder, postmaster, reach, sharing, shutdown
from lonnymq.embedded.discovery import binaries, major_version
from lonnymq.embedded.embedded_errors import NotRunning, StillInUse, WrongVersion

StopMode = Literal["smart", "fast", "immediate"]


class Server:
    """A PostgreSQL on a data folder, listening on loopback and on a socket.

    Any number of processes may use one folder at the same time: the first starts the server, with its
    settings, the others find it running, and the last to stop (or to end) stops it. Root may use it too.
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
        self._use: sharing.Use | None = None
        self._folder: data_folder.Folder | None = None

    def start(self) -> None:
        """Start the server, or join the one that already runs on the data_folder."""
        if self._use is not None:
            return
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with shutdown.uninterrupted(), sharing.alone(self.data_dir):
            self._use = sharing.Use(self.data_dir)
            shutdown.at_end(self.stop)
            try:
                self._join_or_start()
            except BaseException:
                self._leave("immediate")
                raise

    def stop(self, mode: StopMode = "fast") -> None:
        """Leave the server, and stop it if no one else uses it."""
        if self._use is None:
            return
        with shutdown.uninterrupted(), sharing.alone(self.data_dir):
            self._leave(mode)

    def kill(self) -> None:
        """End the server as a crash would, with SIGKILL. Its other processes notice and follow."""
        self._running()
        postmaster.kill(self._located())

    def erase(self) -> None:
        """Remove the data folder, the server on it included. Refused while another process uses it."""
        self.stop("immediate")
        if not self.data_dir.exists():
            return
        with shutdown.uninterrupted(), sharing.alone(self.data_dir):
            use = sharing.Use(self.data_dir)
            try:
                if not use.is_last():
                    raise StillInUse(
                        f"another process uses the server on {self.data_dir}", "stop that one first"
                    )
                remains = data_folder.locate(self.data_dir, account.for_server())
                postmaster.end_without_care(remains)
                remains.erase()
            finally:
                use.end()

    @property
    def pid(self) -> int:
        """Of its first process. Raises NotRunning where there is none."""
        return self._running().pid

    @property
    def port(self) -> int:
        """On 127.0.0.1."""
        return self._running().port

    @property
    def socket_dir(self) -> Path:
        """Where its socket is."""
        return self._running().socket_dir

    @property
    def password(self) -> str:
        """The superuser's, made with the data_folder."""
        return self._located().password()

    @property
    def psql_env(self) -> dict[str, str]:
        """Variables with which psql, pg_dump and every libpq program find the server."""
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
        """An address that libpq, psycopg, asyncpg and SQLAlchemy read. It holds the superuser's password."""
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
        self._bin_dir = reach.reachable_binaries(self._suitable_binaries(self._folder), runs_as)
        if postmaster.find(self._folder) is None:
            durable = self._settings.get("fsync") != "off"
            cluster.make_cluster(self._folder, self._bin_dir, durable=durable)
            postmaster.start(self._folder, self._bin_dir, self._settings)

    def _suitable_binaries(self, located: data_folder.Folder) -> Path:
        made_by = located.made_by_version
        if self._bin_dir is None:
            return binaries(made_by)
        version = major_version(self._bin_dir)
        if made_by not in {None, version}:
            raise WrongVersion(
                f"the data in {self.data_dir} is of PostgreSQL {made_by}, the binaries are of {version}",
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
            f"no PostgreSQL runs on {self.data_dir}", "call start() first, or use `with Server(...)`"
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
