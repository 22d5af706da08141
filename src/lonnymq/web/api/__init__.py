"""The JSON interface, `/api/v1`. One module per topic; all times are Unix milliseconds of the server."""

from fastapi import APIRouter

from lonnymq.web.api import (
    audit,
    batches,
    channel,
    channels,
    dead,
    fairness,
    health,
    history,
    lake,
    message_actions,
    messages,
    overview,
    queue,
    schedules,
    series,
    what_if,
    workers,
)

TOPICS = (
    overview,
    series,
    queue,
    fairness,
    channels,
    channel,
    what_if,
    messages,
    message_actions,
    dead,
    workers,
    schedules,
    batches,
    history,
    health,
    lake,
    audit,
)

router = APIRouter()
for topic in TOPICS:
    router.include_router(topic.router)
