"""The methods of a queue, of its channels and of its dead letters."""

from __future__ import annotations

from lonnymq.client import administer, consume, produce
from lonnymq.client.calls import Call, NamedCall


class QueueCalls:
    enqueue = Call(produce.enqueue)
    dispatch = Call(consume.dispatch)
    complete = Call(consume.complete)
    complete_many = Call(consume.complete_many)
    retry = Call(consume.retry)
    retry_many = Call(consume.retry_many)
    discard = Call(consume.discard)
    extend = Call(consume.extend)
    extend_many = Call(consume.extend_many)
    get = Call(administer.get)
    messages = Call(administer.messages)
    cancel = Call(administer.cancel)
    cancel_many = Call(administer.cancel_many)
    reschedule = Call(administer.reschedule)
    channels = Call(administer.channels)
    lanes = Call(administer.lanes)
    stats = Call(administer.stats)
    history = Call(administer.history)
    settings = Call(administer.settings)
    set = Call(administer.set_queue)
    maintain = Call(administer.maintain)
    rebuild = Call(administer.rebuild)
    schedules = Call(administer.schedules)
    delete_schedule = Call(administer.delete_schedule)
    followers = Call(administer.followers)
    forget_follower = Call(administer.forget_follower)
    credentials = Call(administer.credentials)
    bind = Call(administer.bind)
    bound_channels = Call(administer.bound_channels)


class ChannelCalls:
    get = NamedCall(administer.get_channel)
    set = NamedCall(administer.set_channel)
    stats = NamedCall(administer.channel_stats)
    delete = NamedCall(administer.delete_channel)


class DeadCalls:
    list = Call(administer.list_dead)
    retry = Call(administer.retry_dead)
    retry_all = Call(administer.retry_all_dead)
    discard = Call(administer.discard_dead)
    discard_all = Call(administer.discard_all_dead)
