"""Bind a login role to channels; None frees it."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import Nothing
from lonnymq.statement import Text, Texts


@dataclass(frozen=True)
class CredentialBind(Nothing):
    function = "credential_bind"
    is_repeatable = True

    role: Text
    channels: Texts | None
