"""The program of a client process: it answers requests to measure until its stdin ends."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict

from lonnymq.cli.bench.measures import Measures
from lonnymq.cli.bench.protocol import Measurement, Target
from lonnymq.cli.database import CONNECT_TIMEOUT_S
from lonnymq.cli.failure import UNREACHABLE, exit_code, sentence
from lonnymq.client.queue import Queue
from lonnymq.errors import OutcomeUnknown

POOL_SIZE = 3


def main() -> None:
    logging.disable()  # errors are part of the answers
    target = Target(**json.loads(sys.stdin.readline()))
    with Queue(target.address, target.schema, pool_size=POOL_SIZE, timeout=CONNECT_TIMEOUT_S) as queue:
        measures = Measures(target, queue)
        for line in sys.stdin:
            try:
                answer = asdict(measures.measure(Measurement(**json.loads(line))))
            except Exception as error:  # noqa: BLE001 - sent to the parent process
                answer = _error_answer(error)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _error_answer(error: Exception) -> dict[str, object]:
    if isinstance(error, OutcomeUnknown):
        return {"error": "the connection to the database broke", "code": UNREACHABLE}
    return {"error": sentence(error), "code": exit_code(error)}


if __name__ == "__main__":
    main()
