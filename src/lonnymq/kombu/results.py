"""Celery's results, kept by the queue: `result_backend = "lonnymq+postgresql://user@host/db"`.

Each result is saved under the key that Celery gives it, for as long as `result_expires` says, and is at most
as large as the content of a message.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from celery.backends.base import KeyValueStoreBackend
from celery.exceptions import BackendStoreError
from kombu.utils.encoding import bytes_to_str, str_to_bytes
from kombu.utils.functional import retry_over_time

from lonnymq.client.calls import ask
from lonnymq.commands import ResultLoad, ResultSave
from lonnymq.errors import InvalidArgument
from lonnymq.kombu import broker as brokers
from lonnymq.kombu.address import libpq_url, shown
from lonnymq.kombu.broker import Broker
from lonnymq.kombu.leases import OUTAGES
from lonnymq.kombu.options import read_options

OPTIONS_OF_CELERY = ("global_keyprefix",)
"""Celery reads them itself."""
KEPT_LONGEST = timedelta(days=365)
RETRY = {"max_retries": 30, "interval_start": 0.2, "interval_step": 0.4, "interval_max": 1}


class ResultBackend(KeyValueStoreBackend):  # type: ignore[misc]
    """Chords are unlocked by a task that looks once per second, as with most of Celery's backends."""

    supports_autoexpire = True
    supports_result_compression = True

    def __init__(self, *args: Any, url: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, url=url, **kwargs)
        self._dsn = libpq_url(url or "")
        options = dict(self.app.conf.get("result_backend_transport_options") or {})
        self._options = read_options(options, OPTIONS_OF_CELERY)
        self._borrowed: Broker | None = None
        self._pid = os.getpid()

    def as_uri(self, include_password: bool = False) -> str:
        return shown(self.url or "", include_password=include_password, mask="**")

    def get(self, key: str | bytes) -> bytes | None:
        found = self._broker().queue.perform(ask(ResultLoad(bytes_to_str(key))))
        return None if found is None else found.content

    def mget(self, keys: Iterable[str | bytes]) -> list[bytes | None]:
        return [self.get(key) for key in keys]

    def set(self, key: str | bytes, value: str | bytes) -> None:
        self._save(key, str_to_bytes(value), self._keep_ms())

    def delete(self, key: str | bytes) -> None:
        self._save(key, b"", 0)

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        return isinstance(exc, OUTAGES)

    def close(self) -> None:
        """Give back the shared pool."""
        if self._borrowed is not None and self._pid == os.getpid():
            brokers.release(self._borrowed)
        self._borrowed = None

    def _store_result(self, *args: Any, **kwargs: Any) -> Any:
        """Try for a while if the database is away: without its result, a task that succeeded has failed."""
        return retry_over_time(super()._store_result, OUTAGES, args=args, kwargs=kwargs, **RETRY)

    def _save(self, key: str | bytes, value: bytes, keep_ms: int) -> None:
        try:
            self._broker().queue.perform(ask(ResultSave(bytes_to_str(key), value, None, keep_ms)))
        except InvalidArgument as error:
            raise BackendStoreError(f"the result is too large: {error}") from error

    def _keep_ms(self) -> int:
        """Celery keeps results for a day unless told otherwise, and for ever with 0 or None: here a year."""
        longest = KEPT_LONGEST // timedelta(milliseconds=1)
        return min(int(self.expires * 1000), longest) if self.expires else longest

    def _broker(self) -> Broker:
        """Borrowed once per process: the pool is shared with the connections of the broker."""
        if self._borrowed is None or self._pid != os.getpid():
            broker = brokers.acquire(self._dsn, self._options)
            try:
                broker.prepare(install=self._options.install)
            except BaseException:
                brokers.release(broker)
                raise
            self._borrowed, self._pid = broker, os.getpid()
        return self._borrowed

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        return super().__reduce__(args, {**(kwargs or {}), "url": self.url})
