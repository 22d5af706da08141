"""Remake what is derived from the messages."""

from __future__ import annotations

from dataclasses import dataclass

from lonnymq.commands.shapes import Nothing


@dataclass(frozen=True)
class Rebuild(Nothing):
    function = "rebuild"
    is_harmless = True
