"""The routes of the dashboard, from the application itself: tests over all of them forget none."""

from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette.routing import Mount

CHANGING = {"POST", "PATCH", "PUT", "DELETE"}


def routes_of(app: FastAPI) -> Iterator[tuple[str, frozenset[str]]]:
    """The path of each route, and its methods. What is mounted, the static files, has no methods here."""
    for context in iter_route_contexts(app.routes):
        if isinstance(context.route, Mount):
            yield context.route.path, frozenset()
        else:
            yield str(context.path), frozenset(context.methods or ())


def documented_changes(app: FastAPI) -> set[str]:
    return {
        f"{method} {path}"
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        if method.upper() in CHANGING
    }


def readable_paths(app: FastAPI) -> set[str]:
    return {path for path, methods in routes_of(app) if "GET" in methods}
