"""Which batches of a stream are done, read from the folder of its checkpoint.

Spark tells a source that a batch is done only at the next trigger, which may be hours later. It writes a file
`commits/N` when batch N is done, and before that a file `offsets/N` with the offset up to which the batch
reads each source.
"""

from __future__ import annotations

import json

from pyarrow import ArrowException, fs


class CommitLog:
    def __init__(self, checkpoint: str) -> None:
        """The folder, as a path or as an address such as s3://bucket/checkpoint."""
        if checkpoint.startswith("file:"):
            checkpoint = "/" + checkpoint.removeprefix("file:").lstrip("/")
        if "://" in checkpoint:
            self._files, self._folder = fs.FileSystem.from_uri(checkpoint.replace("s3a://", "s3://", 1))
        else:
            self._files, self._folder = fs.LocalFileSystem(), checkpoint

    def last_seq(self) -> int | None:
        """The claim up to which everything is done. None: no batch is done, or that cannot be told, for
        example because the query has two consuming streams.
        """
        chosen = fs.FileSelector(f"{self._folder}/commits", allow_not_found=True)
        names = [found.base_name for found in self._files.get_file_info(chosen)]
        batches = [int(name) for name in names if name.isdigit()]
        if not batches:
            return None
        try:
            with self._files.open_input_stream(f"{self._folder}/offsets/{max(batches)}") as file:
                text = file.read().decode()
        except (OSError, ArrowException):  # it was deleted meanwhile: there is a newer one
            return None
        return seq_of(text)


def seq_of(offsets: str) -> int | None:
    """The number of the claim in a file of Spark's offset log: a version, metadata, one offset per source.

    >>> seq_of('v1\\n{"batchWatermarkMs":0}\\n{"seq": 7}')
    7
    >>> seq_of('v1\\n{}\\n{"seq": 7}\\n{"seq": 8}') is None
    True
    """
    found = []
    for line in offsets.splitlines()[2:]:
        try:
            offset = json.loads(line)
        except ValueError:
            continue
        if isinstance(offset, dict) and set(offset) == {"seq"}:
            found.append(int(offset["seq"]))
    return found[0] if len(found) == 1 else None
