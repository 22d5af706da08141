"""Options of a message and policies of a channel: the lists that describe them agree."""

import dataclasses

from lonnymq.channel_policy import INHERITED, POLICIES, ChannelPolicy, PolicyChanges, PolicyParameters
from lonnymq.commands import QueueSettings
from lonnymq.message_options import (
    OPTIONS,
    UNCHANGED,
    CreateManyParameters,
    CreateParameters,
    MessageOptions,
    NewMessage,
)


def fields(described: type) -> set[str]:
    return {field.name for field in dataclasses.fields(described)}


def test_options_of_a_message() -> None:
    options = set(MessageOptions.__annotations__)
    assert fields(NewMessage) == options | {"payload", "channel"}
    assert set(OPTIONS) == options - {"content_type"}, "a content type has no flag and no column"
    one = {"dequeue_at", "delay_ms", "headers", "unique_for_ms", "keep_result_ms", *UNCHANGED}
    assert fields(CreateParameters) == one
    many = {"dequeue_ats", "delays_ms", "headers", "unique_fors_ms", "keep_results_ms", *UNCHANGED.values()}
    assert fields(CreateManyParameters) == many


def test_policy_of_a_channel() -> None:
    parts = {*POLICIES, "paused"}
    assert fields(PolicyParameters) == parts - {"rate"} | {"release_interval_us", "inherit"}
    assert fields(ChannelPolicy) == parts | {"channel", "inherited"}
    assert set(PolicyChanges.__annotations__) == parts
    assert {f"channel_{name}" for name in INHERITED} <= fields(QueueSettings)
