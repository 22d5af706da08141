"""What a message carries of a call: its arguments as the payload, the path of its task and the header
`django`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from lonnymq.client.produce import TASK_HEADER
from lonnymq.client.times import EPOCH, MILLISECOND

DJANGO_HEADER = "django"
KEY = re.compile("[0-9a-f]{15}")
TYPES = {
    "key": str,
    "backend": str,
    "enqueued_at": int,
    "run_after": int | None,
    "channel": str | None,
}


@dataclass(frozen=True)
class CallHeader:
    """`key` is the random part of the result's id. Times are Unix milliseconds, `enqueued_at` by the clock of
    the caller. `run_after` and `channel` are None if the task has none: the message always has both.
    """

    key: str
    backend: str
    enqueued_at: int
    run_after: int | None = None
    channel: str | None = None

    @classmethod
    def of(cls, headers: Mapping[str, Any] | None) -> CallHeader | None:
        """None if the message is not a call of a task of Django. Others may write any headers."""
        found = (headers or {}).get(DJANGO_HEADER)
        if not isinstance(found, dict):
            return None
        given: dict[str, Any] = {name: found.get(name) for name in TYPES}
        if not all(isinstance(given[name], kind) for name, kind in TYPES.items()):
            return None
        return cls(**given) if KEY.fullmatch(given["key"]) else None

    def headers(self, path: str) -> dict[str, Any]:
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return {TASK_HEADER: path, DJANGO_HEADER: given}


def path_of(headers: Mapping[str, Any] | None) -> str | None:
    """The path of the task; None if the message is not a call of a task of Django."""
    path = (headers or {}).get(TASK_HEADER)
    return path if isinstance(path, str) and CallHeader.of(headers) is not None else None


def as_milliseconds(at: datetime) -> int:
    """A time of Django, which is naive with USE_TZ = False."""
    aware = timezone.make_aware(at) if timezone.is_naive(at) else at
    return (aware - EPOCH) // MILLISECOND


def as_aware(at: datetime) -> datetime:
    return timezone.make_aware(at) if timezone.is_naive(at) else at


def as_time(milliseconds: int | None) -> datetime | None:
    """A time as Django has it: aware, or naive in the current time zone with USE_TZ = False."""
    if milliseconds is None:
        return None
    aware = EPOCH.astimezone(UTC) + timedelta(milliseconds=milliseconds)
    return aware if settings.USE_TZ else timezone.make_naive(aware)
