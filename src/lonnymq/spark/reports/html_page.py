"""One HTML page that loads nothing, in which the browser runs no script but the page's own."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from html import escape

from lonnymq.spark.reports.style import CSS, SCRIPT
from lonnymq.version import __version__


def html_page(title: str, body: Iterable[str]) -> str:
    digest = b64encode(sha256(SCRIPT.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>LonnyMQ: {title.lower()}</title>",
            f"<style>{CSS}</style>",
            "</head>",
            "<body>",
            "<main>",
            f"<h1>{title}</h1>",
            *body,
            f'<footer class="soft">LonnyMQ {escape(__version__)}</footer>',
            "</main>",
            f"<script>{SCRIPT}</script>",
            "</body>",
            "</html>",
            "",
        ]
    )
