"""The page of one tenant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import TypeAdapter, ValidationError

from lonnymq.channel_policy import POLICIES
from lonnymq.errors import LonnyMQError
from lonnymq.web.access import Right
from lonnymq.web.api.channel import ChannelChange, get_channel, list_channel_points, policy_changes
from lonnymq.web.api.parameters import Name
from lonnymq.web.api.what_if import WhatIf, get_what_if
from lonnymq.web.pages.render import page
from lonnymq.web.pages.series import Line, chart
from lonnymq.web.view import CurrentView, View

router = APIRouter()

SIMULATED = ("max_concurrency", "rate", "burst", "weight")
CHANGES = TypeAdapter(ChannelChange)


@dataclass(frozen=True, slots=True)
class Trial:
    """What was asked in the form for a what-if, and the answer or what is wrong with it. `changes` are what
    would have to be set.
    """

    asked: Mapping[str, str] = field(default_factory=dict)
    answer: WhatIf | None = None
    fault: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)


@router.get("/tenant")
def tenant_page(request: Request, view: CurrentView, name: Name) -> Response:
    channel = get_channel(view, name)
    points = list_channel_points(view, name)
    is_own = view.access.channels is not None
    lines = [Line("served per second", [point.rate for point in points], "c0")]
    if not is_own:
        lines.append(Line("its fair rate", [point.fair_rate for point in points], "c1"))
    return page(
        request,
        view,
        "tenant.html",
        channel=channel,
        policy=channel.policy,
        parts_of_policy=POLICIES,
        rates=chart([point.at for point in points], *lines),
        trial=_trial(view, name, request.query_params),
        simulated=SIMULATED,
        is_own=is_own,
        may_change=view.access.may(Right.CHANNELS, name),
    )


def _trial(view: View, name: str, query: Mapping[str, str]) -> Trial:
    asked = {part: query[part].strip() for part in SIMULATED if query.get(part, "").strip()}
    if not asked:
        return Trial()
    try:
        change = CHANGES.validate_python({"name": name, **{part: _value(asked, part) for part in asked}})
        changes = dict(policy_changes(change))
        answer = get_what_if(view, name, **changes)  # type: ignore[arg-type]
    except ValidationError as error:
        faults = {f"{POLICIES[str(one['loc'][0])].title}: {one['msg']}" for one in error.errors()}
        return Trial(asked, fault="; ".join(sorted(faults)))
    except LonnyMQError as error:
        return Trial(asked, fault=f"{error.message}: {error.hint}" if error.hint else error.message)
    return Trial(asked, answer, changes=changes)


def _value(asked: Mapping[str, str], part: str) -> object:
    """A number if it is one. A rate may be a text such as 20/s, which is checked later."""
    text = asked[part]
    if part == "rate":
        return text
    try:
        return float(text) if part == "weight" else int(text)
    except ValueError:
        return text
