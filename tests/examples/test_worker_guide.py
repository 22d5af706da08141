"""docs/worker.md does what it shows."""

from __future__ import annotations

import re

from tests.examples.page import CHECKOUT, blocks, run_apart

PAGE = CHECKOUT / "docs" / "worker.md"


def test_its_blocks_print_what_stands_below_them(dsn: str) -> None:
    printed_by_block, _ = run_apart(PAGE, dsn)
    shown = blocks(PAGE)
    assert len(shown) == PAGE.read_text(encoding="utf-8").count("```python") > 10
    for block, printed in zip(shown, printed_by_block, strict=True):
        assert printed == block.output, f"worker.md, line {block.line}"


def test_what_it_links_to_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = link.partition("#")
        assert (PAGE.parent / file).exists() if file else anchor in anchors, link
