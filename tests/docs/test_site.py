"""The site that ./run docs builds is complete and works when opened from disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from dev.environment import CHECKOUT
from dev.site import FOLDERS, TOP
from tests.docs.html import Page

pytestmark = pytest.mark.slow

Pages = dict[Path, Page]


def is_external(address: str) -> bool:
    return bool(urlsplit(address).scheme or urlsplit(address).netloc)


def broken_links(page: Page, pages: Pages) -> Iterator[str]:
    for address in page.links | page.loaded:
        if is_external(address):
            continue
        parts = urlsplit(address)
        target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
        if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in pages[target].anchors):
            yield address


def test_every_link_leads_to_an_existing_page_and_anchor(pages: Pages, site_folder: Path) -> None:
    assert len(pages) > len(list((CHECKOUT / "docs").rglob("*.md")))
    found = {
        str(path.relative_to(site_folder)): sorted(broken_links(page, pages)) for path, page in pages.items()
    }
    assert {path: links for path, links in found.items() if links} == {}


def test_a_browser_loads_nothing_from_the_network(pages: Pages, site_folder: Path) -> None:
    loaded = {address for page in pages.values() for address in page.loaded}
    for sheet in site_folder.rglob("*.css"):
        styles = sheet.read_text(encoding="utf-8")
        loaded |= set(re.findall(r"(?:url\(|@import)\s*['\"]?((?!data:)[^'\")\s;]+)", styles))
    assert "../docs/assets/iframe-worker/shim.js" in loaded
    assert {address for address in loaded if is_external(address)} == set()


def test_every_page_is_in_the_navigation(pages: Pages, site_folder: Path) -> None:
    written = [*TOP, *(str(page.relative_to(CHECKOUT)) for name in FOLDERS for page in markdown(name))]
    named = {address.removeprefix("./") for address in pages[site_folder / "index.html"].navigation}
    assert {page for page in written if built_name(page) not in named} == set()


def built_name(page: str) -> str:
    return re.sub(r"README$", "index", page.removesuffix(".md")) + ".html"


def markdown(folder: str) -> list[Path]:
    return sorted((CHECKOUT / folder).rglob("*.md"))


def test_lists_and_tables_are_rendered(pages: Pages) -> None:
    """Most Markdown renderers accept a list without a blank line before it; the one of the site does not."""
    marked = re.compile(r"^([-*] |\d+\. |\||#+ |```)", re.MULTILINE)
    paragraphs = [text for page in pages.values() for text in page.paragraphs]
    assert len(paragraphs) > len(pages)
    assert [text for text in paragraphs if marked.search(text)] == []


def test_the_search_index_has_the_pages(site_folder: Path) -> None:
    index = (site_folder / "search.js").read_text(encoding="utf-8")
    assert index.startswith("var __index = ")
    assert '"location":"docs/reference/queue.html' in index
