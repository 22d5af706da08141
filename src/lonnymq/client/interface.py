"""The methods of a queue, of its channels, of its batches and of its dead letters."""

from __future__ import annotations

from lonnymq.client import (
    consume,
    manage_audit,
    manage_batches,
    manage_channels,
    manage_dead_letters,
    manage_messages,
    manage_queue,
    manage_schedules,
    manage_workers,
    produce,
    results,
)
from lonnymq.client.calls import BatchCall, Call, NamedCall


class QueueCalls:
    enqueue = Call(produce.enqueue)
    dispatch = Call(consume.dispatch)
    complete = Call(consume.complete)
    complete_many = Call(consume.complete_many)
    retry = Call(consume.retry)
    retry_many = Call(consume.retry_many)
    fail = Call(consume.fail)
    discard = Call(consume.discard)
    extend = Call(consume.extend)
    extend_many = Call(consume.extend_many)
    status = Call(results.status)
    result = Call(results.result)
    get = Call(manage_messages.get)
    messages = Call(manage_messages.messages)
    place = Call(manage_messages.place)
    cancel = Call(manage_messages.cancel)
    cancel_many = Call(manage_messages.cancel_many)
    reschedule = Call(manage_messages.reschedule)
    channels = Call(manage_channels.channels)
    lanes = Call(manage_channels.lanes)
    policies = Call(manage_channels.policies)
    stats = Call(manage_queue.stats)
    history = Call(manage_messages.history)
    history_summary = Call(manage_messages.history_summary)
    settings = Call(manage_queue.settings)
    set = Call(manage_queue.set_queue)
    maintain = Call(manage_queue.maintain)
    rebuild = Call(manage_queue.rebuild)
    open_batch = Call(manage_batches.open_batch)
    close_batch = Call(manage_batches.close_batch)
    cancel_batch = Call(manage_batches.cancel_batch)
    batch_status = Call(manage_batches.batch_status)
    batches = Call(manage_batches.batches)
    schedules = Call(manage_schedules.schedules)
    schedule = Call(manage_schedules.schedule)
    run_schedule = Call(manage_schedules.run_schedule)
    pause_schedule = Call(manage_schedules.pause_schedule)
    resume_schedule = Call(manage_schedules.resume_schedule)
    delete_schedule = Call(manage_schedules.delete_schedule)
    workers = Call(manage_workers.workers)
    unknown_tasks = Call(manage_workers.unknown_tasks)
    pause_worker = Call(manage_workers.pause_worker)
    resume_worker = Call(manage_workers.resume_worker)
    drain_worker = Call(manage_workers.drain_worker)
    followers = Call(manage_queue.followers)
    forget_follower = Call(manage_queue.forget_follower)
    credentials = Call(manage_queue.credentials)
    bind = Call(manage_queue.bind)
    bound_channels = Call(manage_queue.bound_channels)
    audit = Call(manage_audit.audit)
    audit_begin = Call(manage_audit.audit_begin)
    audit_end = Call(manage_audit.audit_end)


class BatchCalls:
    enqueue = BatchCall(produce.enqueue)


class ChannelCalls:
    get = NamedCall(manage_channels.get_channel)
    set = NamedCall(manage_channels.set_channel)
    stats = NamedCall(manage_channels.channel_stats)
    explain = NamedCall(manage_channels.explain_channel)
    delete = NamedCall(manage_channels.delete_channel)


class DeadCalls:
    list = Call(manage_dead_letters.list_dead)
    groups = Call(manage_dead_letters.group_dead)
    retry = Call(manage_dead_letters.retry_dead)
    retry_all = Call(manage_dead_letters.retry_all_dead)
    discard = Call(manage_dead_letters.discard_dead)
    discard_all = Call(manage_dead_letters.discard_all_dead)
