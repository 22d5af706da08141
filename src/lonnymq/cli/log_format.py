"""The log of `lonnymq worker`: as text or as JSON, and only if the app does not configure logging itself."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from lonnymq.worker.job_log import fields_of_current_job

log = logging.getLogger("lonnymq.worker")

FORMATS = ("text", "json")
TEXT_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LOGGERS = (None, "lonnymq", "lonnymq.worker")
STANDARD = {*vars(logging.makeLogRecord({})), "asctime", "message", "taskName"}


def configure_logging(level: str | None, log_format: str | None) -> None:
    """Call it after the app's module was imported, which may have configured logging."""
    if any(logging.getLogger(name).handlers for name in LOGGERS):
        if level is not None or log_format is not None:
            log.warning("--log-level and --log-format have no effect: the app configures logging")
        return
    handler = logging.StreamHandler(sys.stderr)
    is_json = (log_format or "text").lower() == "json"
    handler.setFormatter(JsonFormatter() if is_json else TextFormatter(TEXT_FORMAT))
    logging.basicConfig(level=(level or "info").upper(), handlers=[handler])


class TextFormatter(logging.Formatter):
    """Adds the task and the message to what a handler logs. The worker's own texts name them already."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - its name in logging
        text = super().formatMessage(record)
        if fields := _fields_of_current_job(record):
            text += f" [{fields['task']}, message {fields['message_id']}, channel {fields['channel']}]"
        return text


class JsonFormatter(logging.Formatter):
    """One object per line: time, level, logger, message; what the record has as `extra`; the exception. What
    a handler logs has the fields of its message too.
    """

    def format(self, record: logging.LogRecord) -> str:
        extra = {name: value for name, value in vars(record).items() if name not in STANDARD}
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields_of_current_job(record),
            **extra,
        }
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            found["stack"] = self.formatStack(record.stack_info)
        try:
            return json.dumps(found, default=str, allow_nan=False)
        except Exception:  # noqa: BLE001 - the app may give anything as `extra`
            return json.dumps({name: _plain(value) for name, value in found.items()})


def _plain(value: object) -> object:
    """The value if JSON has it, otherwise its text."""
    try:
        return json.loads(json.dumps(value, default=str, allow_nan=False))
    except Exception:  # noqa: BLE001
        try:
            return repr(value)
        except Exception:  # noqa: BLE001
            return f"a {type(value).__name__} without a text"


def _fields_of_current_job(record: logging.LogRecord) -> dict[str, Any]:
    """For a record that a handler logged. Those of the worker have fields of their own."""
    return {} if hasattr(record, "message_id") else fields_of_current_job()
