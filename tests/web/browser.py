"""The dashboard in a real browser: Debian's chromium, driven by Playwright."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright
from starlette.types import ASGIApp

from tests.web.conftest import PERSON

PICTURES = Path(__file__).parent.parent.parent / "docs" / "assets" / "dashboard"
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
SERIOUS = {"serious", "critical"}
TIMEOUT_MS = 20_000


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """The address of an ASGI application that runs in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def started_browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page of a browser, and what went wrong on it."""

    page: Page
    address: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        answer = self.page.goto(f"{self.address}{path}")
        assert answer is not None
        assert answer.status == 200, (path, answer.status, answer.text()[:500])

    def check(self) -> None:
        """No error in the console, nothing loaded from elsewhere, and nothing beside the screen."""
        assert not self.faults
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, f"{self.page.url} is {wide} pixels wider than the screen"

    def check_accessibility(self) -> None:
        """No serious fault for people who do not see the page or have no mouse. Takes half a second of CPU
        time.
        """
        found = Axe().run(self.page).response["violations"]
        serious = [
            (one["id"], node["target"], node.get("failureSummary"))
            for one in found
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]
        assert not serious, (self.page.url, serious)

    def do(self, button: str, *, sure: bool = False, says: str) -> None:
        """Press a button, confirm, and wait for what the page says then."""
        self.page.get_by_role("button", name=button, exact=True).first.click()
        if sure:
            self.page.get_by_role("button", name="Do it").click()
        self.says(says)

    def says(self, text: str) -> None:
        expect(self.page.locator("#toast")).to_contain_text(text, timeout=TIMEOUT_MS)


@contextmanager
def opened_tab(
    browser: Browser, address: str, person: str = "ann", *, phone: bool = False, dark: bool = False
) -> Iterator[Tab]:
    context = browser.new_context(
        viewport=PHONE if phone else DESKTOP,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        extra_http_headers={PERSON: person},
        reduced_motion="reduce",
    )
    context.set_default_timeout(TIMEOUT_MS)
    page = context.new_page()
    tab = Tab(page, address)

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            tab.faults.append(message.text)

    def on_request(request: Request) -> None:
        if not request.url.startswith((address, "data:")):
            tab.faults.append(f"loads {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: tab.faults.append(str(error)))
    page.on("request", on_request)
    yield tab
    context.close()
