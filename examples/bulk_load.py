"""Enqueues many messages from a generator and shows the progress: in one transaction, or one per chunk.

python examples/bulk_load.py postgresql://...
"""

import os
import sys
from collections.abc import Iterator

from lonnymq import Enqueued, NewMessage, Queue

ROWS = 12_000


class BrokenRow(Exception):
    pass


def rows(broken: int | None = None) -> Iterator[NewMessage]:
    """Stands in for a file. The dedupe keys make it safe to load it again."""
    for number in range(ROWS):
        if number == broken:
            raise BrokenRow(number)
        yield NewMessage({"row": number}, channel="import", dedupe_key=f"row {number}")


def show(so_far: Enqueued) -> None:
    print(f"  {so_far.total} so far, {so_far.duplicates} already there")


def waiting(queue: Queue) -> int:
    return queue.channel("import").stats(cap=100_000).waiting


def main(dsn: str) -> None:
    with Queue(dsn) as queue:
        queue.install()  # once, when you deploy

        print("one transaction, row 7000 is broken")
        try:
            queue.enqueue_many(rows(broken=7000), progress=show)
        except BrokenRow:
            print(f"nothing was loaded: {waiting(queue)} messages wait")

        print("one transaction per chunk, row 7000 is broken")
        try:
            queue.enqueue_many(rows(broken=7000), progress=show, commit_each_chunk=True)
        except BrokenRow:
            print(f"the chunk before it was loaded: {waiting(queue)} messages wait")

        print("the same load again, with the row repaired")
        loaded = queue.enqueue_many(rows(), progress=show, commit_each_chunk=True)
        print(f"{loaded.created} were new: {waiting(queue)} messages wait")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
