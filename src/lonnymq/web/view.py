"""What a request works with: the queue, the numbers behind the pages, and the rights of the person."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from lonnymq.client.queue import Queue
from lonnymq.errors import LonnyMQError
from lonnymq.web.access import Access, Right
from lonnymq.web.live import Live
from lonnymq.web.redact import Redaction

log = logging.getLogger("lonnymq.web")

OUTCOME_MAX = 500


@dataclass(frozen=True, slots=True)
class Options:
    """`trace_url` has the place `{trace_id}`."""

    redaction: Redaction
    trace_url: str | None = None


@dataclass(slots=True)
class Action:
    """An action that is under way. `outcome` is what its audit row will say, if it does not fail."""

    outcome: str = "done"


@dataclass(frozen=True, slots=True)
class View:
    queue: Queue
    live: Live
    access: Access
    options: Options

    def check(self, right: Right = Right.READ, channel: str | None = None) -> None:
        """Raise AccessDenied without the right. Without a channel, it is for the whole queue."""
        self.access.check(right, channel)

    def scope(self, channel: str | None) -> str | None:
        """The channel that a list shows: the given one, or the first one of a person who sees only some.
        None: all. Raises AccessDenied if the person may not see it.
        """
        if channel is None and self.access.channels:
            channel = min(self.access.channels)
        self.check(Right.READ, channel)
        return channel

    def without_secrets(self, text: str | None) -> str | None:
        """An error, which may quote a secret."""
        return None if text is None else self.options.redaction.hide_text(text)

    @contextmanager
    def action(
        self,
        name: str,
        right: Right,
        *,
        channel: str | None = None,
        target: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Iterator[Action]:
        """Every change happens in such a block: it checks the right, and writes who did what, before it is
        done and after.
        """
        self.check(right, channel)
        audit_id = self.queue.audit_begin(
            self.access.who, name, channel=channel, target=target, details=dict(details or {})
        )
        action, outcome = Action(), "failed"
        try:
            yield action
            outcome = action.outcome
        except LonnyMQError as error:
            outcome = f"failed: {error}"[:OUTCOME_MAX]
            raise
        finally:
            self._end_audit(audit_id, outcome)

    def _end_audit(self, audit_id: int, outcome: str) -> None:
        """The action is over, so a failure here must not look like one of the action. Without its end, the
        row says that the outcome is not known.
        """
        try:
            self.queue.audit_end(audit_id, outcome)
        except LonnyMQError as error:
            log.warning("audit row %d: could not write the outcome %r: %s", audit_id, outcome, error)


def view_of(request: Request) -> View:
    state = request.app.state
    return View(state.queue, state.live, request.state.access, state.options)


CurrentView = Annotated[View, Depends(view_of)]
