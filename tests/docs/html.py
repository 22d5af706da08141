"""What a built page holds: its anchors, where it leads, and what a browser loads for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

LOADING = {"audio", "embed", "iframe", "img", "object", "script", "source", "video"}


@dataclass
class Page(HTMLParser):
    path: Path
    anchors: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    navigation: set[str] = field(default_factory=set)
    paragraphs: list[str] = field(default_factory=list)
    _is_in_paragraph: bool = False

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
            if "md-nav__link" in given.get("class", ""):
                self.navigation.add(given["href"])
        if tag == "p":
            self.paragraphs.append("")
            self._is_in_paragraph = True
        if tag == "link":
            self.loaded.add(given["href"])
        if tag in LOADING:
            self.loaded |= {given[name] for name in ("src", "data", "poster") if given.get(name)}

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._is_in_paragraph = False

    def handle_data(self, data: str) -> None:
        if self._is_in_paragraph:
            self.paragraphs[-1] += data
