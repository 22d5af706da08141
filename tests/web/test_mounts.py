"""The dashboard below a path of applications made with FastAPI, Starlette, Litestar and Django, over HTTP."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from litestar import Litestar, asgi, get
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from lonnymq import Queue
from lonnymq.web import Access, create_app
from lonnymq.web.app import Dashboard

PREFIX = "/queue"
ADDRESSES = re.compile(r'(?:href|src|action|data-url|hx-get|sse-connect)="([^"]*)"')
SEEN: list[str] = []
"""The paths that the access rule was asked about."""


def by_header(request: Request) -> Access | None:
    SEEN.append(request.url.path)
    name = request.headers.get("x-person")
    return None if name is None else Access(name)


def in_fastapi(dashboard: Dashboard) -> Any:
    """It does not run the lifespan of what is mounted, so close it in one's own."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        dashboard.close()

    app = FastAPI(lifespan=lifespan)
    app.add_api_route("/", lambda: "a page of FastAPI")
    app.mount(PREFIX, dashboard)
    return app


def in_starlette(dashboard: Dashboard) -> Any:
    """Two levels deep."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        dashboard.close()

    async def home(_: Request) -> PlainTextResponse:
        return PlainTextResponse("a page of Starlette")

    within = Mount("/admin", routes=[Mount(PREFIX, dashboard)])
    return Starlette(routes=[Route("/", home), within], lifespan=lifespan)


def in_litestar(dashboard: Dashboard) -> Any:
    @get("/", sync_to_thread=False)
    def home() -> str:
        return "a page of Litestar"

    mounted = asgi(PREFIX, is_mount=True, copy_scope=True)(dashboard)
    return Litestar([home, mounted], on_shutdown=[dashboard.close])


@contextmanager
def served(app: Any) -> Iterator[httpx.Client]:
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="on")
    listening = config.bind_socket()
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as client:
        yield client
    server.should_exit = True
    thread.join()


def check_mounted(client: httpx.Client, prefix: str, **right: Any) -> None:
    """Links, files, interface, changes and the stream work below the prefix, and only for who may."""
    assert "a page of" in client.get("/").text
    refused = client.get(f"{prefix}/workers")
    assert (refused.status_code, refused.json()["error"]) == (403, "AccessDenied")
    client.headers.update(right.get("headers", {}))
    client.cookies.update(right.get("cookies", {}))
    page = client.get(f"{prefix}/workers")
    assert page.status_code == 200
    assert f'data-base="{prefix}"' in page.text
    assert f'href="{prefix}/workers" aria-current="page"' in page.text
    found = ADDRESSES.findall(page.text)
    assert [address for address in found if not address.startswith((f"{prefix}/", "#"))] == []
    files = [address for address in found if "/static/" in address]
    assert len(files) > 5
    for address in files:
        assert client.get(address).status_code == 200, address
    assert client.get(f"{prefix}/api/v1/workers").json() == []
    assert client.get(f"{prefix}/api/v1/workers?x=%2F%C3%A9").json() == []
    assert client.get(f"{prefix}/api/v1/openapi.json").json()["servers"] == [{"url": prefix}]
    sent = client.post(f"{prefix}/api/v1/workers", json={"worker": "mail", "wanted": "pause"})
    assert (sent.status_code, sent.json()["error"]) == (404, "NotFound")
    assert client.get(f"{prefix}/healthz").json() == {"status": "ok"}
    assert client.get(f"{prefix}/nothing").status_code == 404
    assert client.get(f"{prefix}/static/../app.py").status_code == 404
    with client.stream("GET", f"{prefix}/live") as live:
        assert next(live.iter_lines()) == "event: tick"


@pytest.mark.parametrize(
    ("mount", "prefix"),
    [(in_fastapi, PREFIX), (in_starlette, f"/admin{PREFIX}"), (in_litestar, PREFIX)],
)
def test_mounted(mount: Callable[[Dashboard], Any], prefix: str, queue: Queue) -> None:
    dashboard = create_app(queue, access=by_header)
    SEEN.clear()
    with served(mount(dashboard)) as client:
        check_mounted(client, prefix, headers={"x-person": "ann"})
    assert f"{prefix}/workers" in SEEN
    assert "lonnymq-web-live" not in {thread.name for thread in threading.enumerate()}
    assert dashboard.state.queue._is_closed
    dashboard.close()


def test_in_django(web_dsn: str) -> None:
    """As a process. A signal ends it, although a page is open."""
    command = [sys.executable, "-W", "error", "-m", "tests.web.django_site", web_dsn]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as site:
        assert site.stdout is not None
        with httpx.Client(base_url=f"http://127.0.0.1:{site.stdout.readline().strip()}") as client:
            session = httpx.get(client.base_url.join("/login?name=ann")).cookies
            check_mounted(client, PREFIX, cookies=session)
            with client.stream("GET", f"{PREFIX}/live") as live:
                lines = live.iter_lines()
                assert next(lines) == "event: tick"
                site.send_signal(signal.SIGTERM)
                for _ in lines:
                    pass  # it ends
        _, said = site.communicate(timeout=20)
    assert (site.returncode, said) == (-signal.SIGTERM, "")
