"""The numbers of a report or of a simulation as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def json_text(numbers: DataclassInstance) -> str:
    """Times are in ISO 8601, and sets are sorted lists."""
    return json.dumps(asdict(numbers), default=_in_json, ensure_ascii=False, allow_nan=False)


def _in_json(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(f"{value!r} cannot be written as JSON")
