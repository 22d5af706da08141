"""Pages that list others name all of them."""

from __future__ import annotations

import re

from dev.environment import CHECKOUT


def test_the_decisions_are_listed_in_their_order_by_their_titles() -> None:
    titles = {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for page in sorted((CHECKOUT / "docs" / "adr").glob("0*.md"))
    }
    listed = (CHECKOUT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(\d+)\. \[(.*)\]\((.*)\)$", listed, re.MULTILINE)
    assert [(name, f"{number}. {title}") for number, title, name in lines] == list(titles.items())


def test_the_examples_are_listed() -> None:
    listed = (CHECKOUT / "examples" / "README.md").read_text(encoding="utf-8")
    programs = sorted(path.name for path in (CHECKOUT / "examples").glob("*.py"))
    assert re.findall(r"^\| \[(.*)\]\(\1\) \| ", listed, re.MULTILINE) == programs
