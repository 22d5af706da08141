"""Spark: the queue, its history and its dead letters as data sources, and what is built on them.

The public functions are `session`, `load`, `archive`, `report`, `simulate` and `replay`.

- `sessions/` starts Spark: the session, its Java, and this package on executors
- `queue_source` is `format("lonnymq")`; it leads to `sink/` (writing), `consume/` (a stream that consumes)
  and `waiting_reader` (the waiting and leased messages as a table)
- `changes/` is `format("lonnymq_history")`, `format("lonnymq_dead")` and `format("lonnymq_policies")`, as
  tables and as streams
- `lake/` archives history and dead letters into Delta or Iceberg tables, and looks after their files
- `reports/` computes how each tenant was served, and shows it
- `simulation/` tells what other limits would have done
- `load_files` enqueues the rows of files, `replay_messages` those of history or dead letters

All of them share `connection` (how a Spark process connects to the database), `source_options` (the checked
options of a data source), `message_filter` (the lanes and channels that are read), `columns` (what is read,
with its types), `content/` (contents as structs), `transient_errors` (what is retried) and `unwrap_errors`
(our errors, taken out of Spark's).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lonnymq.simulation.scenario import Scenario
    from lonnymq.spark.lake.archive import archive
    from lonnymq.spark.load_files import load
    from lonnymq.spark.replay_messages import replay
    from lonnymq.spark.reports.build import report
    from lonnymq.spark.sessions.spark_session import session
    from lonnymq.spark.simulation.run import simulate

__all__ = ["Scenario", "archive", "load", "replay", "report", "session", "simulate"]

_MODULES = {
    "archive": "lake.archive",
    "load": "load_files",
    "replay": "replay_messages",
    "report": "reports.build",
    "session": "sessions.spark_session",
    "Scenario": "simulation.run",
    "simulate": "simulation.run",
}


def __getattr__(name: str) -> object:
    """Import a function on first use: Spark's worker processes import this package and need none of them."""
    if name in _MODULES:
        return getattr(importlib.import_module(f"lonnymq.spark.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
