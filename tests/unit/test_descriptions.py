"""Options of a message and policies of a channel: the lists that describe them agree."""

import dataclasses

from lonnymq.channel_policy import POLICIES, ChannelPolicy, PolicyChanges, PolicyParameters
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
    assert fields(CreateParameters) == {"dequeue_at", "delay_ms", "headers", *UNCHANGED}
    assert fields(CreateManyParameters) == {"dequeue_ats", "delays_ms", "headers", *UNCHANGED.values()}


def test_policy_of_a_channel() -> None:
    parts = {part.field for part in POLICIES.values()} | {"paused"}
    assert fields(PolicyParameters) == parts
    assert fields(ChannelPolicy) == parts | {"channel"}
    assert set(PolicyChanges.__annotations__) == {*POLICIES, "paused"}
