"""The examples in docstrings do what they show."""

import doctest
import importlib

import pytest

MODULES = [
    "lonnymq.payload",
    "lonnymq.client.times",
    "lonnymq.adapters.array_text",
    "lonnymq.django.error_text",
    "lonnymq.django.result_id",
    "lonnymq.install.missing_roles",
    "lonnymq.rules.room",
    "lonnymq.rules.token_bucket",
    "lonnymq.rules.turns",
    "lonnymq.simulation.consumers",
    "lonnymq.simulation.errors",
    "lonnymq.simulation.scenario",
    "lonnymq.simulation.waits",
    "lonnymq.worker.backoff",
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(module))
    assert (failed, tried > 0) == (0, True)
