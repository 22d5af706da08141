"""Runs a PostgreSQL server on a data folder, for demos, tests and use on one machine.

>>> with Server(Path("data")) as server:
...     connection = psycopg.connect(server.dsn())
"""

from lonnymq.embedded.discovery import binaries
from lonnymq.embedded.embedded_errors import (
    BinariesMissing,
    BinariesUnreachable,
    EmbeddedError,
    InitFailed,
    NotRunning,
    StartFailed,
    StillInUse,
    StopFailed,
    WrongVersion,
)
from lonnymq.embedded.server import Server

__all__ = [
    "BinariesMissing",
    "BinariesUnreachable",
    "EmbeddedError",
    "InitFailed",
    "NotRunning",
    "Server",
    "StartFailed",
    "StillInUse",
    "StopFailed",
    "WrongVersion",
    "binaries",
]
