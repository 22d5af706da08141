"""A Django site with the dashboard below /queue, run by uvicorn: django_site.py DSN."""

import sys
from typing import Any

import django
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from starlette.requests import Request

from lonnymq import Queue
from lonnymq.web import Access, create_app


def home(_: HttpRequest) -> HttpResponse:
    return HttpResponse("a page of Django")


def log_in(request: HttpRequest) -> HttpResponse:
    request.session["name"] = request.GET["name"]
    return HttpResponse("welcome")


urlpatterns = [path("", home), path("login", log_in)]

settings.configure(
    ALLOWED_HOSTS=["*"],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of a test",  # noqa: S106
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    USE_TZ=True,
)
django.setup()


def staff_only(request: Request) -> Access | None:
    """By the session of Django."""
    from django.contrib.sessions.backends.signed_cookies import SessionStore

    name = SessionStore(request.cookies.get(settings.SESSION_COOKIE_NAME)).get("name")
    return None if name is None else Access(name)


site = get_asgi_application()
dashboard = create_app(Queue(sys.argv[1], listen=False), access=staff_only)


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http" and scope["path"].startswith("/queue/"):
        await dashboard({**scope, "root_path": "/queue"}, receive, send)
    else:
        await site(scope, receive, send)


if __name__ == "__main__":
    config = uvicorn.Config(application, port=0, lifespan="off", log_level="warning")
    listening = config.bind_socket()
    print(listening.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listening])
