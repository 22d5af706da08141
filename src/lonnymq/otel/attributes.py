"""The names and attributes of the messaging conventions, as far as this package uses them.

They are written out here because the package that has them as constants is not stable, and only the SDK
needs it. The tests compare them.
"""

from __future__ import annotations

from typing import Any

from lonnymq.adapters.address import parameters
from lonnymq.errors import InvalidAddress

SYSTEM = "lonnymq"

CREATE, SEND, RECEIVE, PROCESS, SETTLE = "create", "send", "receive", "process", "settle"

MESSAGING_SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
MESSAGE_ID = "messaging.message.id"
BODY_SIZE = "messaging.message.body.size"
BATCH_COUNT = "messaging.batch.message_count"
ERROR_TYPE = "error.type"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

# Attributes of our own, on spans only: metrics with the channel would have one series per tenant.
CHANNEL = "lonnymq.channel"
LANE = "lonnymq.lane"
TASK = "lonnymq.task"
ATTEMPT = "lonnymq.attempt"
SETTLEMENT = "lonnymq.settlement"
RESULT = "lonnymq.result"


def operation_attributes(operation: str, schema: str) -> dict[str, Any]:
    """The attributes that spans and metrics of an operation have in common."""
    return {
        MESSAGING_SYSTEM: SYSTEM,
        OPERATION_NAME: operation,
        OPERATION_TYPE: operation,
        DESTINATION: schema,
    }


def server_attributes(address: str | None) -> dict[str, Any]:
    """The host and the port of the database, if the address names one of each."""
    try:
        found = {} if address is None else parameters(address)
    except InvalidAddress:
        return {}
    host, port = str(found.get("host") or ""), str(found.get("port") or "")
    if not host or "," in host:
        return {}
    return {SERVER_ADDRESS: host} | ({SERVER_PORT: int(port)} if port.isdigit() else {})


def error_type(error: BaseException) -> str:
    """The name of its class. A call that was cancelled ends with GeneratorExit."""
    return "cancelled" if isinstance(error, GeneratorExit) else type(error).__name__
