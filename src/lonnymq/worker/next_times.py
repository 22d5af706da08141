"""When a schedule runs next, as far as it is known here."""

from __future__ import annotations

from itertools import islice

from lonnymq.commands import Schedule
from lonnymq.worker.cron_times import CronTimes, zone_named


def next_times(schedule: Schedule, limit: int = 1) -> list[int]:
    """The next times that are not decided yet, which are past if no worker runs. Empty if the schedule is
    paused, or its times or time zone are not known here.
    """
    zone = zone_named(schedule.time_zone)
    if schedule.is_paused or schedule.expression is None or zone is None:
        return []
    try:
        from cronsim import CronSimError
    except ImportError:
        return []
    try:
        return list(islice(CronTimes(schedule.expression, zone).following(schedule.ticked_at), limit))
    except CronSimError:
        return []
