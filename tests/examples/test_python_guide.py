"""docs/python.md mentions every public call."""

from __future__ import annotations

import re

from lonnymq import Queue
from lonnymq.client.queue import Channel, Dead
from tests.examples.page import CHECKOUT

PAGE = CHECKOUT / "docs" / "python.md"
INTERNAL = {"address", "after_fork", "beside", "copy_arguments", "observe", "observers", "perform"}


def test_it_mentions_every_call() -> None:
    text = PAGE.read_text(encoding="utf-8")
    mentioned = set(re.findall(r"\b([a-z_]+)\(", text)) | set(re.findall(r"`([a-z_.]+)`", text))
    for kind in (Queue, Channel, Dead):
        calls = {name for name in dir(kind) if not name.startswith("_")} - INTERNAL
        assert calls <= mentioned, calls - mentioned
