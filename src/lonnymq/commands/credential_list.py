"""The logins that are bound to channels."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import ManyRecords


@dataclass(frozen=True, slots=True)
class Credential:
    """A login role, and the channels that it is bound to."""

    role: str
    channels: list[str]


@dataclass(frozen=True)
class CredentialList(ManyRecords[Credential]):
    function = "credential_list"
    is_harmless = True
    record = Credential
