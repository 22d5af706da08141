"""Parses a built page: its anchors, its links, and what a browser loads for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

LOADING_TAGS = {"audio", "embed", "iframe", "img", "object", "script", "source", "video"}


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
        attributes = {name: value or "" for name, value in attrs}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.add(attributes["href"])
            if "md-nav__link" in attributes.get("class", ""):
                self.navigation.add(attributes["href"])
        if tag == "p":
            self.paragraphs.append("")
            self._is_in_paragraph = True
        if tag == "link":
            self.loaded.add(attributes["href"])
        if tag in LOADING_TAGS:
            self.loaded |= {attributes[name] for name in ("src", "data", "poster") if attributes.get(name)}

    def handle_endtag(self, tag: str) -> None:
        if tag == "p":
            self._is_in_paragraph = False

    def handle_data(self, data: str) -> None:
        if self._is_in_paragraph:
            self.paragraphs[-1] += data
