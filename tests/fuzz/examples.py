"""Runs a function on generated examples."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis
from hypothesis import strategies as st


def try_many(count: int, call: Callable[[st.DataObject], None]) -> None:
    """What is wrong is collected, not raised, so examples are neither kept nor made smaller."""

    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.data())
    def example(data: st.DataObject) -> None:
        call(data)

    example()
