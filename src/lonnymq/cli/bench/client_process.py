"""A client: a process that measures what it is told to, until there is nobody to tell it."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict

from lonnymq.cli.bench.measures import Measures
from lonnymq.cli.bench.protocol import Order, Site
from lonnymq.cli.database import CONNECT_TIMEOUT_S
from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.client.queue import Queue
from lonnymq.errors import OutcomeUnknown

CONNECTIONS = 3


def main() -> None:
    logging.disable()  # what is to be said is answered
    site = Site(**json.loads(sys.stdin.readline()))
    with Queue(site.address, site.schema, pool_size=CONNECTIONS, timeout=CONNECT_TIMEOUT_S) as queue:
        measures = Measures(site, queue)
        for line in sys.stdin:
            try:
                answer = asdict(measures.measure(Order(**json.loads(line))))
            except Exception as error:  # noqa: BLE001 - told to who asked
                answer = _told(error)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _told(error: Exception) -> dict[str, object]:
    if isinstance(error, OutcomeUnknown):
        return {"error": "the connection to the database broke", "code": UNREACHABLE}
    return {"error": sentence(error), "code": exit_code(error)}


if __name__ == "__main__":
    main()
