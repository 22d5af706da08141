"""docs/python.md does what it shows."""

from __future__ import annotations

import re

from lonnymq import Queue
from lonnymq.queue.queue import Channel, Dead
from tests.examples.page import CHECKOUT, blocks, run_apart

PAGE = CHECKOUT / "docs" / "python.md"


def test_its_blocks_print_what_stands_below_them(dsn: str) -> None:
    printed_by_block, stderr = run_apart(PAGE, dsn)
    assert stderr == ""
    shown = blocks(PAGE)
    assert len(shown) > 20
    for block, printed in zip(shown, printed_by_block, strict=True):
        assert printed == block.output, f"python.md, line {block.line}"


def test_every_block_of_it_is_run() -> None:
    assert PAGE.read_text(encoding="utf-8").count("```python") == len(blocks(PAGE))


def test_what_it_links_to_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = {heading.lower().replace(" ", "-") for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        if file:
            assert (PAGE.parent / file).exists(), link
        else:
            assert anchor in headings, link


def test_it_tells_of_every_call() -> None:
    text = PAGE.read_text(encoding="utf-8")
    told = set(re.findall(r"\b([a-z_]+)\(", text)) | set(re.findall(r"`([a-z_.]+)`", text))
    for kind in (Queue, Channel, Dead):
        calls = {name for name in dir(kind) if not name.startswith("_")} - {"perform", "like_this"}
        assert calls <= told, calls - told
