"""The calls of a queue, of its channels and of its dead letters."""

from __future__ import annotations

from lonnymq.queue import administering, consuming, producing
from lonnymq.queue.calls import Call, NamedCall


class QueueCalls:
    enqueue = Call(producing.enqueue)
    complete = Call(consuming.complete)
    complete_many = Call(consuming.complete_many)
    retry = Call(consuming.retry)
    retry_many = Call(consuming.retry_many)
    discard = Call(consuming.discard)
    extend = Call(consuming.extend)
    extend_many = Call(consuming.extend_many)
    get = Call(administering.get)
    messages = Call(administering.messages)
    cancel = Call(administering.cancel)
    cancel_many = Call(administering.cancel_many)
    reschedule = Call(administering.reschedule)
    channels = Call(administering.channels)
    lanes = Call(administering.lanes)
    stats = Call(administering.stats)
    history = Call(administering.history)
    settings = Call(administering.settings)
    set = Call(administering.set_queue)
    maintain = Call(administering.maintain)


class ChannelCalls:
    get = NamedCall(administering.get_channel)
    set = NamedCall(administering.set_channel)
    stats = NamedCall(administering.channel_stats)
    delete = NamedCall(administering.delete_channel)


class DeadCalls:
    list = Call(administering.list_dead)
    retry = Call(administering.retry_dead)
    retry_all = Call(administering.retry_all_dead)
    discard = Call(administering.discard_dead)
    discard_all = Call(administering.discard_all_dead)
