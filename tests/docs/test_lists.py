"""Index pages list every page."""

from __future__ import annotations

import re

from dev.environment import CHECKOUT


def test_every_decision_is_listed_in_order_with_its_title() -> None:
    titles = {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for page in sorted((CHECKOUT / "docs" / "adr").glob("0*.md"))
    }
    listed = (CHECKOUT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(\d+)\. \[(.*)\]\((.*)\)$", listed, re.MULTILINE)
    assert [(name, f"{number}. {title}") for number, title, name in lines] == list(titles.items())


def test_every_example_is_listed() -> None:
    listed = (CHECKOUT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = sorted(path.name for path in (CHECKOUT / "examples").glob("*.py"))
    assert re.findall(r"^\| \[(.*)\]\(\1\) \| ", listed, re.MULTILINE) == programs
