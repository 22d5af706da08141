"""The pages. A page calls the functions of `api`, which check the rights, and renders a template."""

from fastapi import APIRouter

from lonnymq.web.pages import (
    audit,
    batches,
    dead,
    fairness,
    health,
    history,
    lake,
    messages,
    overview,
    schedules,
    tenant,
    tenants,
    workers,
)
from lonnymq.web.pages.render import problem_page

TOPICS = (
    overview,
    fairness,
    tenants,
    tenant,
    messages,
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

__all__ = ["problem_page", "router"]
