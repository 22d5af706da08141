"""Django's immediate and dummy backends, for tasks that have options of LonnyMQ: for tests."""

from __future__ import annotations

from lonnymq.django import task_framework
from lonnymq.django.task import LonnyMQTask


class ImmediateBackend(task_framework.ImmediateBackend):
    """Runs tasks where they are enqueued, as Django's own does."""

    task_class = LonnyMQTask


class DummyBackend(task_framework.DummyBackend):
    """Collects what is enqueued in `results`, as Django's own does."""

    task_class = LonnyMQTask
