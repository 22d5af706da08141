"""Checks of every command, for any driver: one function per command, with the name of its SQL function."""

import dataclasses
from uuid import UUID, uuid4

from lonnymq import commands as c
from lonnymq.commands import Result
from tests.conformance.drivers import Run

CONTENT = b"\x00\xff bytes"
HEADERS = {"who": "zoë", "n": [1, None, 2.5]}
WRONG_TOKEN = UUID(int=0)


def leased(run: Run, count: int = 1) -> list[c.Delivery]:
    run(c.MessageCreateMany(["a"] * count, [CONTENT] * count))
    run(c.Dispatch())
    return run(c.MessageDequeue(count, 60_000, "me")).deliveries


def dead(run: Run) -> int:
    [delivery] = leased(run)
    run(c.QueueSet(max_attempts=1))
    assert run(c.MessageRetry(delivery.id, delivery.token, error="no route")) is Result.DEAD
    return delivery.id


def message_create(run: Run) -> None:
    made = run(
        c.MessageCreate("a", CONTENT, dequeue_at=-5, headers=HEADERS, max_attempts=3, dedupe_key="key")
    )
    assert made.result is Result.CREATED
    assert run(c.MessageCreate("a", b"", dedupe_key="key")) == c.Created(made.id, Result.DUPLICATE)
    unique = run(c.MessageCreate("a", b"", dedupe_key="kept", unique_while="running", unique_for_ms=1000))
    kept = run(c.MessageGet(unique.id or 0))
    assert kept is not None
    assert kept.unique_for_ms == 1000
    run(c.ChannelSet("b", max_size=1))
    assert run(c.MessageCreate("b", b"")).result is Result.CREATED
    assert run(c.MessageCreate("b", b"")) == c.Created(None, Result.FULL)
    later = run(c.MessageCreate("c", b"", delay_ms=60_000, priority=-7, cost=3, lane="slow"))
    found = run(c.MessageGet(later.id or 0))
    assert found is not None
    assert (found.status, found.priority, found.cost, found.lane) == ("scheduled", -7, 3, "slow")


def message_create_many(run: Run) -> None:
    made = run(
        c.MessageCreateMany(
            ["a", "b"],
            [CONTENT, b""],
            dequeue_ats=[None, 7],
            headers=[HEADERS, None],
            max_attempts=[None, 2],
            dedupe_keys=["key", None],
            unique_whiles=["running", None],
            unique_fors_ms=[1000, None],
        )
    )
    assert [each.result for each in made] == [Result.CREATED] * 2
    assert run(c.MessageCreateMany([], [])) == []
    found = run(c.MessageGet(made[0].id or 0))
    assert found is not None
    assert (found.headers, found.content, found.dedupe_key) == (HEADERS, CONTENT, "key")
    assert found.unique_for_ms == 1000
    assert (found.priority, found.cost, found.lane) == (0, 1, "default")
    made = run(
        c.MessageCreateMany(
            ["a", "b"],
            [b"", b""],
            delays_ms=[60_000, None],
            priorities=[None, 7],
            costs=[2, None],
            lanes=[None, "slow"],
        )
    )
    one, two = (run(c.MessageGet(each.id or 0)) for each in made)
    assert one is not None
    assert two is not None
    assert (one.status, one.priority, one.cost, one.lane) == ("scheduled", 0, 2, "default")
    assert (two.status, two.priority, two.cost, two.lane) == ("due", 7, 1, "slow")


def staging_publish(run: Run) -> None:
    assert run(c.StagingPublish(uuid4())) == c.Published(0, 0, 0)


def staging_publish_once(run: Run) -> None:
    job = uuid4()
    once = c.StagingPublishOnce("load", 7, [uuid4()], job=job)
    assert run(once) == c.PublishedOnce(0, 0, 0, is_repeat=False, job=job)
    again = c.StagingPublishOnce("load", 7, [uuid4(), uuid4()])
    assert run(again) == c.PublishedOnce(0, 0, 0, is_repeat=True, job=job)
    assert not run(c.StagingPublishOnce("job", None, [])).is_repeat


def staging_discard(run: Run) -> None:
    assert run(c.StagingDiscard([uuid4()])) == 0


def claimed(run: Run, count: int = 2) -> int:
    """Let claimant "me" claim `count` messages, and return its generation."""
    run(c.MessageCreateMany(["a"] * count, [CONTENT] * count))
    run(c.Dispatch())
    opened = run(c.ClaimOpen("me"))
    made = run(c.ClaimNext("me", opened.generation, 0, count, 60_000))
    assert (made.seq, made.messages) == (1, count)
    return opened.generation


def claim_open(run: Run) -> None:
    assert run(c.ClaimOpen("me")) == c.Claimant(1, 0, 0)
    assert run(c.ClaimOpen("me")) == c.Claimant(2, 0, 0)


def claim_next(run: Run) -> None:
    generation = claimed(run)
    assert run(c.ClaimNext("me", generation, 0, 2)).seq == 1
    nothing = run(c.ClaimNext("me", generation, 1, 2))
    assert (nothing.seq, nothing.messages) == (1, 0)
    assert nothing.again_at is not None


def claim_begin(run: Run) -> None:
    generation = claimed(run)
    assert run(c.ClaimBegin("me", generation, 1, 60_000)) == c.ClaimBegun(2, 0, 0)
    again = run(c.ClaimOpen("me")).generation
    assert run(c.ClaimBegin("me", again, 1)) == c.ClaimBegun(1, 0, 0)


def claim_waiting(run: Run) -> None:
    assert run(c.ClaimWaiting()) == 0
    run(c.MessageCreate("a", b""))
    run(c.MessageCreate("b", b""))
    run(c.Dispatch())
    assert run(c.ClaimWaiting()) == 2
    assert run(c.ClaimWaiting(["default"], ["a", "a", "x"])) == 1
    assert run(c.ClaimWaiting(["other"], None, "a|b")) == 0
    assert run(c.ClaimWaiting(None, None, "a|b")) == 2


def claim_extend(run: Run) -> None:
    assert run(c.ClaimExtend("me", claimed(run), 60_000, forget=True)) == c.ClaimExtended(2, 0)


def claim_read(run: Run) -> None:
    generation = claimed(run)
    one, two = run(c.ClaimRead("me", generation, 0, 1))
    assert (one.channel, one.content, one.attempts, one.headers) == ("a", CONTENT, 1, None)
    assert run(c.ClaimRead("me", generation, 0, 1, 0, 2)) == [two]


def claim_complete(run: Run) -> None:
    generation = claimed(run)
    assert run(c.ClaimComplete("me", generation, 1, whole=True)) == c.ClaimCompleted(2, 0, 0)
    assert run(c.ClaimOpen("me")).done_seq == 1


def history_bounds(run: Run) -> None:
    found = run(c.HistoryBounds())
    assert found.snapshot.count(":") == 2
    assert (found.trimmed_xid, found.is_kept) == (0, False)


def history_follow(run: Run) -> None:
    run(c.HistoryFollow("lake", "10:10:"))
    assert [(found.name, found.snapshot) for found in run(c.HistoryFollowers())] == [("lake", "10:10:")]


def history_followers(run: Run) -> None:
    assert run(c.HistoryFollowers()) == []


def history_mark(run: Run) -> None:
    assert run(c.HistoryMark("1:1:")) is None
    assert run(c.HistoryMark("3:3:", dead=True)) == 0


def policy_mark(run: Run) -> None:
    assert run(c.PolicyMark("1:1:")) == 0
    run(c.ChannelSet("a", max_concurrency=3, weight=2.5))
    assert (run(c.PolicyMark(run(c.HistoryBounds()).snapshot)) or 0) > 0
    [newest, *_] = run(c.PolicyList(None, 10))
    assert (newest.channel, newest.max_concurrency, newest.weight, newest.paused) == ("a", 3, 2.5, False)
    assert run(c.PolicyList("a", 10)) == [newest]
    assert {row.weight for row in run(c.PolicyList(None, 10)) if row.scope != "channel"} == {None}


def history_summary(run: Run) -> None:
    assert run(c.HistorySummary()) == []
    run(c.QueueSet(history=True))
    run(c.MessageCreate("a", CONTENT, headers={"task": "mail"}))
    run(c.Dispatch())
    [delivery] = run(c.MessageDequeue()).deliveries
    run(c.MessageComplete(delivery.id, delivery.token))
    [found] = run(c.HistorySummary("a", 0, 10))
    assert (found.task, found.messages, found.completed, found.attempts_mean) == ("mail", 1, 1, 1.0)
    assert (found.has_more, found.from_at, type(found.waited_p99_ms)) == (False, 0, float)


def history_unfollow(run: Run) -> None:
    assert run(c.HistoryUnfollow("lake")) is False
    run(c.HistoryFollow("lake", "10:10:"))
    assert run(c.HistoryUnfollow("lake")) is True


def schedule_open(run: Run) -> None:
    new, other = run(c.ScheduleOpen(["s", "t", "s"]))
    assert (new.name, other.name) == ("s", "t")
    assert new.ticked_at <= new.now_at
    assert [found.ticked_at for found in run(c.ScheduleOpen(["s"]))] == [new.ticked_at]
    define(run)


def define(run: Run) -> None:
    options = {"headers": HEADERS, "priority": 7}
    definition = (["* * * * *", "0 7 * * *"], ["UTC", "Europe/Berlin"], ["one", "all"], ["a", "b"])
    run(c.ScheduleOpen(["s", "t"], *definition, [CONTENT, b""], [options, {}]))


def schedule_fire(run: Run) -> None:
    [at] = [found.ticked_at for found in run(c.ScheduleOpen(["s"]))]
    while run(c.ScheduleOpen(["s"]))[0].now_at < at + 3:
        pass
    options = {"headers": HEADERS, "max_attempts": 3, "priority": 7, "cost": 2, "lane": "slow"}
    fired = run(c.ScheduleFire("s", at, at + 2, [at + 1, at + 2], "a", CONTENT, options))
    assert (fired.result, fired.ticked_at, fired.created, fired.refused) == (Result.FIRED, at + 2, 2, 0)
    assert run(c.ScheduleFire("s", at, at + 2, [at + 2], "a", CONTENT)).result is Result.LOST
    assert run(c.ScheduleFire("s", at + 2, at + 3, [], "a", CONTENT)).result is Result.SKIPPED
    assert run(c.ScheduleFire("s", at + 3, 2**53, [], "a", CONTENT)).result is Result.EARLY
    assert run(c.ScheduleFire("t", 1, 2, [], "a", CONTENT)).result is Result.NOT_FOUND
    run(c.Dispatch())
    first, second = run(c.MessageDequeue(2)).deliveries
    assert first.headers == HEADERS | {"scheduled-at": at + 1}
    assert (second.headers or {})["scheduled-at"] == at + 2
    assert second.lane == "slow"


def schedule_list(run: Run) -> None:
    [at] = [found.ticked_at for found in run(c.ScheduleOpen(["s"]))]
    assert run(c.ScheduleList()) == [c.Schedule("s", at, None, at, None, 0, None, None, None, None, None)]
    define(run)
    [first, second] = run(c.ScheduleList())
    assert (first.expression, first.time_zone, first.catch_up, first.channel) == (
        "* * * * *",
        "UTC",
        "one",
        "a",
    )
    assert (second.name, second.time_zone) == ("t", "Europe/Berlin")


def schedule_get(run: Run) -> None:
    assert run(c.ScheduleGet("s")) is None
    define(run)
    found = run(c.ScheduleGet("s"))
    assert found is not None
    assert (found.content, found.headers, found.options) == (CONTENT, HEADERS, {"priority": 7})


def schedule_run(run: Run) -> None:
    assert run(c.ScheduleRun("s")) == c.Created(None, Result.NOT_FOUND)
    run(c.ScheduleOpen(["s"]))
    assert run(c.ScheduleRun("s")) == c.Created(None, Result.UNDEFINED)
    define(run)
    made = run(c.ScheduleRun("s"))
    found = run(c.MessageGet(made.id or 0))
    assert found is not None
    assert (found.content, found.headers["schedule-run"], found.priority) == (CONTENT, True, 7)


def schedule_pause(run: Run) -> None:
    assert run(c.SchedulePause("s")) is Result.NOT_FOUND
    run(c.ScheduleOpen(["s"]))
    assert run(c.SchedulePause("s")) is Result.PAUSED
    [state] = run(c.ScheduleOpen(["s"]))
    assert state.is_paused
    past = state.ticked_at - 1  # a later time might be early
    assert run(c.ScheduleFire("s", past, state.ticked_at, [], "a", CONTENT)).result is Result.PAUSED
    assert [found.is_paused for found in run(c.ScheduleList())] == [True]


def schedule_resume(run: Run) -> None:
    assert run(c.ScheduleResume("s")) is Result.NOT_FOUND
    run(c.ScheduleOpen(["s"]))
    run(c.SchedulePause("s"))
    assert run(c.ScheduleResume("s", catch_up=True)) is Result.RESUMED
    assert not run(c.ScheduleOpen(["s"]))[0].is_paused


def schedule_delete(run: Run) -> None:
    assert run(c.ScheduleDelete("s")) is False
    run(c.ScheduleOpen(["s"]))
    assert run(c.ScheduleDelete("s")) is True


def dispatch(run: Run) -> None:
    run(c.MessageCreate("a", b""))
    assert run(c.Dispatch(10, 0)) is False


def channels_dispatch(run: Run) -> None:
    run(c.MessageCreate("a", b""))
    run(c.MessageCreate("b", b""))
    run(c.Dispatch())
    assert run(c.ChannelsDispatch(["b"], None, ["default"], 10)) is False
    [delivery] = run(c.MessageDequeue(2, channels=["b"])).deliveries
    assert delivery.channel == "b"


def message_dequeue(run: Run) -> None:
    made = run(c.MessageCreate("a", CONTENT, headers=HEADERS))
    run(c.Dispatch())
    dequeued = run(c.MessageDequeue(2, 60_000, "me"))
    [delivery] = dequeued.deliveries
    assert (delivery.id, delivery.channel, delivery.content, delivery.headers) == (
        made.id,
        "a",
        CONTENT,
        HEADERS,
    )
    assert (delivery.state, delivery.attempts, type(delivery.content)) == (None, 1, bytes)
    assert dequeued.again_at is not None
    assert run(c.MessageDequeue()).deliveries == []
    run(c.MessageCreate("a", b"", lane="slow"))
    run(c.Dispatch())
    assert run(c.MessageDequeue(lanes=["default"])).deliveries == []
    [delivery] = run(c.MessageDequeue(lanes=["default", "slow"], async_commit=True)).deliveries
    assert delivery.lane == "slow"


def message_complete(run: Run) -> None:
    [delivery] = leased(run)
    assert run(c.MessageComplete(delivery.id, WRONG_TOKEN)) is Result.LOST
    assert run(c.MessageComplete(delivery.id, delivery.token)) is Result.COMPLETED
    assert run(c.MessageComplete(delivery.id, delivery.token)) is Result.NOT_FOUND


def message_complete_many(run: Run) -> None:
    one, two = leased(run, 2)
    done = run(c.MessageCompleteMany([two.id, one.id], [one.token]))
    assert done == [c.Outcome(two.id, Result.COMPLETED), c.Outcome(one.id, Result.COMPLETED)]
    assert run(c.MessageCompleteMany([], [])) == []
    one, two = leased(run, 2)
    run(c.MessageCompleteMany([one.id, two.id], [one.token], [CONTENT, None], [None, None], [1000, None]))
    assert run(c.StatusGet(one.id, with_result=True)).result_content == CONTENT


def message_retry(run: Run) -> None:
    [delivery] = leased(run)
    assert run(c.MessageRetry(delivery.id, delivery.token, 7, CONTENT, "e")) is Result.RETRIED
    found = run(c.MessageGet(delivery.id))
    assert found is not None
    assert (found.dequeue_at, found.state, found.error, found.attempts) == (7, CONTENT, "e", 1)
    [delivery] = leased(run)
    assert run(c.MessageRetry(delivery.id, delivery.token, delay_ms=60_000)) is Result.RETRIED
    found = run(c.MessageGet(delivery.id))
    assert found is not None
    assert found.status == "scheduled"
    [delivery] = leased(run)
    assert run(c.MessageRetry(delivery.id, delivery.token, error="e", is_final=True)) is Result.DEAD


def message_retry_many(run: Run) -> None:
    one, two = leased(run, 2)
    ids, tokens = [one.id, two.id], [one.token, two.token]
    done = run(c.MessageRetryMany(ids, tokens, [7, None], [None, CONTENT], [None, "e"]))
    assert [each.result for each in done] == [Result.RETRIED] * 2
    [delivery] = leased(run)
    [done_later] = run(c.MessageRetryMany([delivery.id], [delivery.token], delays_ms=[60_000]))
    assert done_later.result is Result.RETRIED
    one, two = leased(run, 2)
    done = run(c.MessageRetryMany([one.id, two.id], [one.token], are_final=[True, None]))
    assert [each.result for each in done] == [Result.DEAD, Result.RETRIED]


def message_discard(run: Run) -> None:
    [delivery] = leased(run)
    assert run(c.MessageDiscard(delivery.id, WRONG_TOKEN)) is Result.LOST
    assert run(c.MessageDiscard(delivery.id, delivery.token, "no such customer")) is Result.DISCARDED
    assert run(c.MessageDiscard(delivery.id, delivery.token)) is Result.NOT_FOUND


def message_discard_many(run: Run) -> None:
    one, two = leased(run, 2)
    ids, tokens = [one.id, two.id], [one.token, WRONG_TOKEN]
    discarded = run(c.MessageDiscardMany(ids, tokens, ["no such customer", None]))
    assert [each.result for each in discarded] == [Result.DISCARDED, Result.LOST]


def message_reject_many(run: Run) -> None:
    one, two = leased(run, 2)
    command = c.MessageRejectMany([one.id, two.id], [one.token, WRONG_TOKEN], ["no", "no"], 60_000)
    assert [each.result for each in run(command)] == [Result.REJECTED, Result.LOST]
    final = c.MessageRejectMany([two.id], [two.token], ["nobody knew it"], 0)
    assert [each.result for each in run(final)] == [Result.DEAD]


def message_extend(run: Run) -> None:
    [delivery] = leased(run)
    extended = run(c.MessageExtend(delivery.id, delivery.token, 120_000))
    assert extended.result is Result.EXTENDED
    assert (extended.lease_end_at or 0) > delivery.lease_end_at
    assert run(c.MessageExtend(delivery.id, WRONG_TOKEN, 1000)) == c.Extended(Result.LOST, None)


def message_leased_many(run: Run) -> None:
    one, two = leased(run, 2)
    run(c.MessageComplete(one.id, one.token))
    found = run(c.MessageLeasedMany([two.id, one.id, two.id], [two.token, two.token, WRONG_TOKEN]))
    assert [each.result for each in found] == [Result.LEASED, Result.NOT_FOUND, Result.LOST]
    assert run(c.MessageLeasedMany([], [])) == []


def message_extend_many(run: Run) -> None:
    one, two = leased(run, 2)
    extended = run(c.MessageExtendMany([one.id, 0, two.id], [one.token], 120_000))
    assert [each.result for each in extended] == [Result.EXTENDED, Result.NOT_FOUND, Result.EXTENDED]


def sleep_look(run: Run) -> None:
    run(c.Dispatch())
    idle = run(c.SleepLook())
    assert not idle.is_due
    assert not idle.is_awaited
    assert idle.now_at < idle.again_at <= idle.now_at + 1000
    while not (awaited := run(c.SleepBegin())).is_sure:
        pass
    assert run(c.SleepLook(awaited.generation)).is_awaited
    run(c.MessageCreate("a", b""))
    assert run(c.SleepLook()).is_due
    run(c.Dispatch())
    assert run(c.SleepLook(lanes=["default"])).is_due
    assert not run(c.SleepLook(lanes=["other"])).is_due


def sleep_begin(run: Run) -> None:
    first = run(c.SleepBegin())
    assert first.is_sure is False
    assert run(c.SleepBegin(first.generation)).generation != first.generation


def maintain(run: Run) -> None:
    assert run(c.Maintain()) >= 0


def status_get(run: Run) -> None:
    [delivery] = leased(run)
    assert run(c.StatusGet(delivery.id)).status == "leased"
    assert run(c.ProgressWrite([delivery.id], [delivery.token], [0.5], ["zoë"])) == 1
    found = run(c.StatusGet(delivery.id))
    assert (found.progress, found.progress_note, found.consumer) == (0.5, "zoë", "me")
    run(c.MessageComplete(delivery.id, delivery.token, CONTENT, "text/plain", 60_000))
    found = run(c.StatusGet(delivery.id, with_result=True))
    assert (found.status, found.result_content, found.result_type) == ("completed", CONTENT, "text/plain")
    assert run(c.StatusGet(0)).status == "unknown"


def progress_write(run: Run) -> None:
    one, two = leased(run, 2)
    ids, fractions = [one.id, two.id], [0.25, 1.0]
    assert run(c.ProgressWrite(ids, [one.token], fractions, [None, "done"], async_commit=True)) == 2
    assert run(c.ProgressWrite(ids, [WRONG_TOKEN], fractions)) == 0
    assert run(c.StatusGet(two.id)).progress == 1


def result_save(run: Run) -> None:
    assert run(c.ResultSave("zoë", CONTENT, "text/plain")) > run(c.ResultSave("zoë", b"", keep_ms=60_000))
    run(c.ResultSave("zoë", b"", keep_ms=0))
    assert run(c.ResultLoad("zoë")) is None


def result_load(run: Run) -> None:
    until_at = run(c.ResultSave("zoë", CONTENT, "text/plain", 60_000))
    found = run(c.ResultLoad("zoë"))
    assert found == c.SavedResult("zoë", until_at - 60_000, until_at, "text/plain", CONTENT)
    found = run(c.ResultLoad("zoë", with_content=False))
    assert found is not None
    assert found.content is None


def message_get(run: Run) -> None:
    [delivery] = leased(run)
    found = run(c.MessageGet(delivery.id))
    assert found is not None
    assert (found.status, found.consumer, found.content) == ("leased", "me", CONTENT)
    assert run(c.MessageGet(0)) is None


def message_list(run: Run) -> None:
    run(c.MessageCreateMany(["a"] * 3, [b"x"] * 3))
    first, second = run(c.MessageList("a", "waiting", None, 2))
    [third] = run(c.MessageList("a", after=second.cursor))
    assert first.id < second.id < third.id
    assert third.content_bytes == 1


def message_cancel(run: Run) -> None:
    made = run(c.MessageCreate("a", b""))
    assert run(c.MessageCancel(made.id or 0)) is Result.CANCELLED
    [delivery] = leased(run)
    assert run(c.MessageCancel(delivery.id)) is Result.MARKED


def message_cancel_many(run: Run) -> None:
    made = run(c.MessageCreate("a", b""))
    done = run(c.MessageCancelMany([0, made.id]))
    assert [each.result for each in done] == [Result.NOT_FOUND, Result.CANCELLED]


def message_reschedule(run: Run) -> None:
    made = run(c.MessageCreate("a", b"", dequeue_at=9_000_000_000_000))
    assert run(c.MessageReschedule(made.id or 0, 7)) is Result.RESCHEDULED
    assert run(c.MessageReschedule(made.id or 0)) is Result.RESCHEDULED
    assert run(c.MessageReschedule(0)) is Result.NOT_FOUND


def dead_list(run: Run) -> None:
    dead_id = dead(run)
    [found] = run(c.DeadList("a", "no%"))
    assert (found.id, found.error, found.content_bytes) == (dead_id, "no route", len(CONTENT))
    assert run(c.DeadList(after=dead_id)) == []


def message_place(run: Run) -> None:
    run(c.MessageCreateMany(["a"] * 2, [CONTENT] * 2))
    last = run(c.MessageCreate("a", CONTENT)).id or 0
    run(c.Dispatch())
    assert run(c.MessagePlace(last)) == dataclasses.replace(
        c.Place(last, "a", "default", "due", 0, 2, is_capped=False, reason="next", ahead=0),
        dequeue_at=run(c.StatusGet(last)).dequeue_at or 0,
    )
    assert run(c.MessagePlace(0)) is None


def audit_begin(run: Run) -> None:
    first = run(c.AuditBegin("zoë", "pause", "a", "7", HEADERS))
    assert run(c.AuditBegin("zoë", "pause")) > first


def audit_end(run: Run) -> None:
    entry = run(c.AuditBegin("zoë", "pause"))
    assert run(c.AuditEnd(entry, "done")) is True
    assert run(c.AuditEnd(entry, "failed")) is False


def audit_list(run: Run) -> None:
    first = run(c.AuditBegin("zoë", "pause", "a", "7", HEADERS))
    second = run(c.AuditBegin("zoë", "drain", target="w*"))
    newest, oldest = run(c.AuditList())
    assert (newest.id, newest.details, newest.outcome) == (second, {}, None)
    assert (oldest.who, oldest.channel, oldest.target, oldest.details) == ("zoë", "a", "7", HEADERS)
    assert [found.id for found in run(c.AuditList("a", second, 1))] == [first]


def dead_groups(run: Run) -> None:
    dead_id = dead(run)
    [found] = run(c.DeadGroups("a", by_channel=True))
    assert (found.pattern, found.channel, found.messages, found.example_id, found.has_more) == (
        *("no route", "a", 1, dead_id),
        False,
    )
    assert [each.id for each in run(c.DeadList(fingerprint=found.fingerprint))] == [dead_id]


def dead_retry(run: Run) -> None:
    dead_id = dead(run)
    assert run(c.DeadRetry([dead_id, 0])) == [
        c.Outcome(dead_id, Result.RETRIED),
        c.Outcome(0, Result.NOT_FOUND),
    ]
    found = run(c.MessageGet(dead_id))
    assert found is not None
    assert [past["error"] for past in found.past_errors] == ["no route"]


def dead_retry_all(run: Run) -> None:
    dead(run)
    assert run(c.DeadRetryAll("a", dry_run=True)) == c.RetriedAll(1, 0, None)
    assert run(c.DeadRetryAll("a", spread_ms=1000)) == c.RetriedAll(1, 0, None)
    assert run(c.DeadRetryAll("a")) == c.RetriedAll(0, 0, None)


def dead_discard(run: Run) -> None:
    dead_id = dead(run)
    assert run(c.DeadDiscard([dead_id])) == [c.Outcome(dead_id, Result.DISCARDED)]


def dead_discard_all(run: Run) -> None:
    dead(run)
    assert run(c.DeadDiscardAll(error="no route")) == c.DiscardedAll(1, None)


def channel_get(run: Run) -> None:
    assert run(c.ChannelGet("a")) == c.ChannelPolicy(
        "a", None, None, 1, paused=False, max_size=None, weight=1, inherited=[]
    )


def channel_set(run: Run) -> None:
    policy = run(
        c.ChannelSet(
            "a",
            max_concurrency=3,
            release_interval_us=50_000,
            burst=9,
            paused=True,
            weight=0.1,
            inherit=["max_size"],
        )
    )
    assert policy == c.ChannelPolicy("a", 3, "20/s", 9, paused=True, max_size=None, weight=0.1, inherited=[])
    assert run(c.ChannelGet("a")) == policy


def channel_stats(run: Run) -> None:
    leased(run, 2)
    run(c.Dispatch())
    found = run(c.ChannelStats("a"))
    assert (found.waiting, found.leased, found.served, found.blocked_by) == (0, 2, 2, "empty")


def channel_explain(run: Run) -> None:
    assert run(c.ChannelExplain("a")) == [
        c.ChannelExplanation(None, 0, 0, "empty", None, None, None, None, None)
    ]
    run(c.ChannelSet("a", max_concurrency=1))
    leased(run, 1)
    run(c.MessageCreate("a", b""))
    run(c.Dispatch())
    [found] = run(c.ChannelExplain("a"))
    assert (found.lane, found.due, found.leased, found.reason) == ("default", 1, 1, "concurrency")
    assert (found.used, found.allowed, found.until_at, found.ahead) == (1, 1, None, None)
    assert found.since_at is not None


def channel_list(run: Run) -> None:
    run(c.MessageCreateMany(["a", "b"], [b"", b""]))
    run(c.Dispatch())
    assert [each.channel for each in run(c.ChannelList())] == ["a", "b"]
    assert [each.channel for each in run(c.ChannelList("name", "a", 1))] == ["b"]


def lane_list(run: Run) -> None:
    run(c.MessageCreateMany(["a", "b", "a"], [b""] * 3, lanes=[None, "slow", "slow"]))
    run(c.Dispatch())
    assert {lane.lane: lane.waiting for lane in run(c.LaneList())} == {"default": 1, "slow": 2}


def channel_delete(run: Run) -> None:
    run(c.MessageCreate("a", b""))
    assert run(c.ChannelDelete("a")).result is Result.NOT_EMPTY
    assert run(c.ChannelDelete("a", with_messages=True)) == c.Deleted(Result.DELETED, 1)


def worker_report(run: Run) -> None:
    me = uuid4()
    report = c.WorkerReport(me, "w", "host", 7, "0.1", 1000, ["send", ""], 10, 2, "serving", ["mail"])
    assert run(report) == c.WorkerReported("serving", [])
    unknown = dataclasses.replace(
        report, unknown_tasks=["new", "send"], unknown_messages=[3, 1], unknown_ages_ms=[50, 0]
    )
    assert run(unknown) == c.WorkerReported("serving", ["new"])
    [found] = run(c.WorkerList())
    assert (found.id, found.name, found.host, found.pid, found.version) == (me, "w", "host", 7, "0.1")
    assert (found.lanes, found.tasks, found.unknown_tasks) == (["mail"], ["send", ""], ["new", "send"])
    assert (found.state, found.requested, found.concurrency, found.running) == ("serving", "serving", 10, 2)
    assert found.is_alive


def worker_leave(run: Run) -> None:
    me = uuid4()
    assert run(c.WorkerLeave(me)) is False
    run(c.WorkerReport(me, "w", "host", 7, "0.1", 0, [], 1, 0, "serving"))
    assert run(c.WorkerLeave(me)) is True


def worker_list(run: Run) -> None:
    assert run(c.WorkerList()) == []


def worker_request(run: Run) -> None:
    me = uuid4()
    report = c.WorkerReport(me, "w", "host", 7, "0.1", 0, [], 1, 0, "serving")
    run(report)
    assert run(c.WorkerRequest("v*", "paused")) == []
    assert run(c.WorkerRequest("w*", "paused")) == [c.RequestedWorker(me, "w", is_alive=True)]
    assert run(report).requested == "paused"


def unknown_task_list(run: Run) -> None:
    report = c.WorkerReport(uuid4(), "w", "host", 7, "0.1", 0, [], 1, 0, "serving", None, ["new"], [3], [50])
    run(report)
    [found] = run(c.UnknownTaskList())
    assert (found.task, found.messages, found.workers, found.is_known) == ("new", 3, 1, False)


def queue_get(run: Run) -> None:
    assert run(c.QueueGet()).notify_channel.startswith("lonnymq_")


def queue_set(run: Run) -> None:
    changed = run(c.QueueSet(lease_ms=5000, history=True, paused=True))
    assert (changed.lease_ms, changed.history, changed.paused) == (5000, True, True)
    assert run(c.QueueGet()) == changed


def queue_stats(run: Run) -> None:
    leased(run)
    run(c.Dispatch())
    found = run(c.QueueStats())
    assert (found.waiting, found.leased, found.served, found.paused) == (0, 1, 1, False)


def bound_channels(run: Run) -> None:
    assert run(c.BoundChannels()) is None


def credential_bind(run: Run) -> None:
    run(c.CredentialBind("pg_monitor", ["a", "b"]))
    run(c.CredentialBind("pg_monitor", None))
    assert run(c.CredentialList()) == []


def credential_list(run: Run) -> None:
    run(c.CredentialBind("pg_monitor", ["a"]))
    assert run(c.CredentialList()) == [c.Credential("pg_monitor", ["a"])]


def rebuild(run: Run) -> None:
    run(c.MessageCreate("a", b""))
    run(c.Rebuild())
    run(c.Dispatch())
    assert len(run(c.MessageDequeue()).deliveries) == 1


def batch(run: Run) -> int:
    """A batch with a callback and one message."""
    batch_id = run(c.BatchOpen("import", "done", CONTENT, {"headers": HEADERS, "priority": 7}))
    run(c.MessageCreate("a", CONTENT, batch_id=batch_id))
    return batch_id


def batch_open(run: Run) -> None:
    batch_id = run(c.BatchOpen("import", failure_channel="failed", failure_content=b""))
    assert batch_id > 0
    assert run(c.BatchOpen("import")) > batch_id


def batch_close(run: Run) -> None:
    batch_id = batch(run)
    assert run(c.BatchClose(batch_id)) is Result.CLOSED
    assert run(c.BatchClose(0)) is Result.NOT_FOUND
    run(c.Dispatch())
    [delivery] = run(c.MessageDequeue()).deliveries
    assert run(c.MessageComplete(delivery.id, delivery.token)) is Result.COMPLETED
    run(c.Dispatch())
    [delivery] = run(c.MessageDequeue()).deliveries
    assert (delivery.channel, delivery.content) == ("done", CONTENT)
    assert delivery.headers == {
        **HEADERS,
        "batch": {
            "id": batch_id,
            "name": "import",
            "total": 1,
            "completed": 1,
            "dead": 0,
            "cancelled": 0,
            "failed_id": None,
        },
    }


def batch_cancel(run: Run) -> None:
    batch_id = batch(run)
    assert run(c.BatchCancel(batch_id)) == c.CancelledBatch(Result.MORE, 0)
    assert run(c.BatchCancel(batch_id, 5)) == c.CancelledBatch(Result.CANCELLED, 1)
    assert run(c.BatchCancel(0)).result is Result.NOT_FOUND


def batch_get(run: Run) -> None:
    found = run(c.BatchGet(batch(run)))
    assert found is not None
    assert (found.name, found.status, found.total, found.waiting) == ("import", "open", 1, 1)
    assert run(c.BatchGet(0)) is None


def batch_list(run: Run) -> None:
    first, second = batch(run), run(c.BatchOpen("other"))
    assert [found.id for found in run(c.BatchList())] == [second, first]
    assert [found.id for found in run(c.BatchList("import", "open", second, 1))] == [first]
