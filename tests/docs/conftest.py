from __future__ import annotations

from pathlib import Path

import pytest

from dev import site
from tests.docs.html import Page


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site.build(tmp_path_factory.mktemp("documentation")).parent


@pytest.fixture(scope="session")
def pages(site_folder: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site_folder.rglob("*.html")}
