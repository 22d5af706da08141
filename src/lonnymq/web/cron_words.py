"""Cron expressions in words."""

from __future__ import annotations

from cron_descriptor import Options, get_description

OPTIONS = Options(use_24hour_time_format=True, locale_code="en_US")


def in_words(expression: str | None) -> str | None:
    """None if there are no words for it.

    >>> in_words("0 7 * * 1-5"), in_words("*/10 * * * * *"), in_words("soon")
    ('At 07:00, Monday through Friday', 'Every 10 seconds', None)
    """
    if expression is None:
        return None
    try:
        return str(get_description(expression, OPTIONS))
    except Exception:  # noqa: BLE001 - the library does not know all that cronsim does, and raises anything
        return None
