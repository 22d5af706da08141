"""The log of `lonnymq worker` as JSON."""

import json
import logging
from typing import Any

import pytest

from lonnymq.cli.log_format import JsonFormatter


class Unreadable:
    def __repr__(self) -> str:
        raise KeyError("text")


CIRCULAR: dict[str, Any] = {}
CIRCULAR["itself"] = CIRCULAR


@pytest.mark.parametrize(
    ("value", "logged"),
    [
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (CIRCULAR, "{'itself': {...}}"),
        (float("nan"), "nan"),
        ([float("inf")], "[inf]"),
        (Unreadable(), "a Unreadable without a text"),
        ({1}, "{1}"),
        ({"n": [1, None, 0.5]}, {"n": [1, None, 0.5]}),
    ],
)
def test_a_record_is_json_whatever_is_extra(value: Any, logged: Any) -> None:
    record = logging.makeLogRecord({"msg": "sent", "levelname": "INFO", "value": value, "size": 7})

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = json.loads(JsonFormatter().format(record), parse_constant=refuse)
    assert (found["message"], found["value"], found["size"]) == ("sent", logged, 7)
