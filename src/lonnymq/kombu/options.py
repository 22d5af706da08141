"""The transport options: `transport_options` of a kombu Connection, `broker_transport_options` of Celery."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from lonnymq.adapters.address import conninfo
from lonnymq.commands import QueueSettings
from lonnymq.errors import InvalidArgument
from lonnymq.install.kombu_tables import SCHEMA_MAX_BYTES

ChooseChannel = Callable[[Mapping[str, Any]], str | None]
"""Takes a message as kombu has it, with its `headers`, `properties` and `body`."""

HEADER = "channel"
OPTIONS_OF_KOMBU = (
    *("callback", "connect_retries_timeout", "deadletter_queue", "errback", "interval_max", "interval_start"),
    *("interval_step", "max_retries", "on_revive", "retry_errors"),
)
"""kombu reads them itself, whatever the transport, or adds them when it publishes with a retry policy."""


@dataclass(frozen=True)
class Options:
    """The fields are the options."""

    schema: str = "lonnymq"
    lease: float | None = None
    """Seconds. The queue's setting unless given."""
    channel: ChooseChannel | None = None
    channel_header: str = HEADER
    max_attempts: int | None = None
    """The queue's setting unless given."""
    install: bool = True
    listen: bool | str = field(default=True, repr=False)  # an address may contain a password
    pool_size: int = 10


def read_options(given: Mapping[str, Any], others: tuple[str, ...] = OPTIONS_OF_KOMBU) -> Options:
    """Raise InvalidArgument for an option that does not exist, or is not valid. Somebody else reads the
    `others`.
    """
    own = [field.name for field in fields(Options)]
    for name in given:
        if name not in own and name not in others:
            raise InvalidArgument(
                f"no transport option {name!r}",
                f"leave it out, or give one of {', '.join(own)}; those of kombu are {', '.join(others)}",
            )
    lease = given.get("lease")
    if lease is not None and (type(lease) not in {int, float} or not lease >= 1):
        raise _invalid("lease", lease, "a number of seconds of 1 or more")
    max_attempts = given.get("max_attempts")
    if max_attempts is not None and (type(max_attempts) is not int or max_attempts < 1):
        raise _invalid("max_attempts", max_attempts, "a whole number of 1 or more")
    header = given.get("channel_header", HEADER)
    if not isinstance(header, str) or not header:
        raise _invalid("channel_header", header, "the name of a header")
    schema = given.get("schema", "lonnymq")
    if not isinstance(schema, str) or len(schema.encode()) > SCHEMA_MAX_BYTES:
        raise _invalid("schema", schema, f"a name of at most {SCHEMA_MAX_BYTES} bytes")
    install = given.get("install", True)
    if not isinstance(install, bool):
        raise _invalid("install", install, "True or False")
    listen = given.get("listen", True)
    return Options(
        schema=schema,
        lease=lease,
        channel=_function(given.get("channel")),
        channel_header=header,
        max_attempts=max_attempts,
        install=install,
        listen=conninfo(listen) if isinstance(listen, str) else listen,
        pool_size=given.get("pool_size", 10),
    )


def lease_of(options: Options, settings: QueueSettings) -> float:
    """The length of a lease in seconds. Raises InvalidArgument if the queue does not allow it."""
    lease = options.lease or settings.lease_ms / 1000
    if lease * 1000 > settings.lease_max_ms:
        longest = settings.lease_max_ms / 1000
        raise _invalid("lease", lease, f"at most {longest:g} seconds, which is the queue's lease_max,")
    return lease


def _function(given: object) -> ChooseChannel | None:
    """The option `channel`: a function, or where it is, as "module:name"."""
    if given is None:
        return None
    if isinstance(given, str):
        module, _, name = given.partition(":")
        if not module or not name:
            raise _invalid("channel", given, 'a function, or its place, such as "shop.tenants:channel_of"')
        try:
            given = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise InvalidArgument(f"channel: cannot import {module}:{name}: {error}", None) from error
    if not callable(given):
        raise _invalid("channel", given, 'a function, or its place, such as "shop.tenants:channel_of"')
    return given


def _invalid(name: str, value: object, wanted: str) -> InvalidArgument:
    return InvalidArgument(
        f"{name}: {value!r} is not valid", f"give {wanted} in the transport options, or leave it out"
    )
