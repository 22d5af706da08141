"""staging_publish for several batches, once for an app and version."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import OneRecord
from lonnymq.statement import BigInt, Boolean, Text, Uuids


@dataclass(frozen=True, slots=True)
class PublishedOnce:
    """As Published; `is_repeat`: it had been published before, and these are the numbers of then."""

    created: int
    duplicates: int
    refused: int
    is_repeat: bool


@dataclass(frozen=True)
class StagingPublishOnce(OneRecord[PublishedOnce]):
    function = "staging_publish_once"
    record = PublishedOnce
    is_repeatable = True

    app: Text
    version: BigInt | None
    batches: Uuids
    drop_full: Boolean = False
