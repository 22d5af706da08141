"""A progress bar for Spark jobs on the terminal."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.console import Console

INTERVAL_S = 0.25


class SparkProgress:
    """While entered, shows how many tasks of the active stages are done, and a description."""

    def __init__(self, spark: SparkSession, screen: Console, description: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from lonnymq.spark.sessions.ship_package import is_connect

        self._tracker = None if is_connect(spark) else spark.sparkContext.statusTracker()
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tasks")
        self._shown = Progress(*columns, TimeElapsedColumn(), console=screen, transient=True)
        self._bar = self._shown.add_task(description, total=None)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._shown.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._shown.stop()

    def describe(self, description: str) -> None:
        self._shown.update(self._bar, description=description)

    def _watch(self) -> None:
        while self._tracker is not None and not self._stopped.wait(INTERVAL_S):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            if known:
                done = sum(stage.numCompletedTasks for stage in known)
                self._shown.update(self._bar, completed=done, total=sum(stage.numTasks for stage in known))
