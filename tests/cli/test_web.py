"""lonnymq web: who may use it, wrong uses, and the process that serves."""

import re
import signal
import socket
import subprocess
import sys
from unittest import mock

import httpx
import pytest

from tests.cli.conftest import Run
from tests.cli.running import environment, run

USER = {"LONNYMQ_WEB_USER": "zoë"}
URL = re.compile(r"^The dashboard is at (http://127\.0\.0\.1:\d+/) until Ctrl-C\.$")
PASSWORD = {"LONNYMQ_WEB_PASSWORD": "pässwörd: 7"}


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (["--host", "::"], {}, "set LONNYMQ_WEB_USER and LONNYMQ_WEB_PASSWORD, or listen on 127.0.0.1"),
        (["--host", "::"], {}, "other machines could open the dashboard at ::"),
        ([], USER, "LONNYMQ_WEB_USER is set, but LONNYMQ_WEB_PASSWORD is not"),
        ([], PASSWORD, "LONNYMQ_WEB_PASSWORD is set, but LONNYMQ_WEB_USER is not"),
        ([], PASSWORD | {"LONNYMQ_WEB_USER": "a:b"}, "the user's name is empty or has a colon"),
        (["--host", "no-such-host.invalid"], {}, "the address 'no-such-host.invalid' cannot be found"),
        (["--redact", ""], {}, "--redact: the word is empty"),
        (["--trace-url", "https://traces.example"], {}, "has no {trace_id}"),
    ],
)
def test_wrong_uses(arguments: list[str], env: dict[str, str], says: str) -> None:
    done = run("web", *arguments, env=env)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert says in done.stderr


def test_a_port_that_is_in_use(lonnymq: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = lonnymq("web", "--port", str(port))
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert f"could not open port {port} on 127.0.0.1: Address already in use (choose" in done.stderr


@pytest.mark.parametrize("package", ["fastapi", "jinja2", "uvicorn"])
def test_without_the_extra(package: str) -> None:
    loaded = [name for name in sys.modules if name.startswith("lonnymq.web")]
    with mock.patch.dict(sys.modules, {package: None}):
        for name in loaded:
            del sys.modules[name]
        done = run("web")
    assert (done.code, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith(f" needs {package} (pip install 'lonnymq[web]')\n")


def test_as_a_process(dsn: str) -> None:
    """Ctrl-C ends it at once, although a page is open."""
    command = [sys.executable, "-W", "error", "-m", "lonnymq", "web", "--port", "0"]
    env = environment(dsn, USER | PASSWORD)
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as web:
        assert web.stderr is not None
        [url] = URL.findall(web.stderr.readline())
        with httpx.Client(base_url=url) as client:
            assert client.get("healthz").json() == {"status": "ok"}
            refused = client.get("workers")
            assert (refused.status_code, refused.headers["WWW-Authenticate"][:6]) == (401, "Basic ")
            client.auth = httpx.BasicAuth("zoë", "pässwörd: 7")
            assert "zoë" in client.get("workers").text
            with client.stream("GET", "live") as live:
                lines = live.iter_lines()
                assert next(lines) == "event: tick"
                web.send_signal(signal.SIGINT)
                for _ in lines:
                    pass  # it ends
        shown, more = web.communicate(timeout=20)
    assert (web.returncode, shown, more) == (0, "", "")
