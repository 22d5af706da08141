"""lonnymq channels explain: a sentence per lane."""

import re

import pytest

from lonnymq import ChannelExplanation, Queue
from lonnymq.monitor.explanations import explanation
from tests.cli.conftest import Run

NOW = 1_893_456_000_000


def test_why_a_channel_waits(queue: Queue, lonnymq: Run) -> None:
    acme = queue.channel("acme & co")
    done = lonnymq("channels", "explain", "acme & co")
    assert (done.code, done.stdout, done.stderr) == (0, "acme & co has no waiting messages.\n", "")
    queue.enqueue_many(range(3), channel="acme & co")
    (new,) = lonnymq("channels", "explain", "acme & co", "--json").records
    assert new["reason"] == "not dispatched", "asking does not dispatch"
    acme.set(max_concurrency=1)
    assert len(queue.dequeue(5)) == 1
    queue.enqueue(4, channel="acme & co", lane="mail")
    queue.dispatch()
    default, mail = lonnymq("channels", "explain", "acme & co").stdout.splitlines()
    assert re.sub("for .*?[.]", "for <age>.", default, count=1) == (
        "acme & co has 2 due messages in lane default, the next one for <age>. It has 1 of 1"
        " messages running: raise its limit with `lonnymq channels set 'acme & co' --max-concurrency 2`,"
        " or wait for one to finish."
    )
    assert mail.startswith("acme & co has 1 due message in lane mail, the next one for ")
    assert "It has 1 of 1 messages running" in mail
    found = lonnymq("channels", "explain", "acme & co", "--json").records
    assert [(each["lane"], each["reason"], each["used"]) for each in found] == [
        ("default", "concurrency", 1),
        ("mail", "concurrency", 1),
    ]


SENTENCES = {
    "paused": "The channel is paused: serve it again with `lonnymq channels resume acme`.",
    "queue paused": "The whole queue is paused: serve it again with `lonnymq queue set --not-paused`.",
    "concurrency": "It has 4 of 4 messages running, or next in another lane: raise its limit with"
    " `lonnymq channels set acme --max-concurrency 8`, or wait for one to finish.",
    "rate": "Its rate allows the next one in 3 s: raise the rate with"
    " `lonnymq channels set acme --rate RATE`, or wait.",
    "queue limit": "The whole queue has 4 of 4 messages running: raise its limit with"
    " `lonnymq queue set --max-concurrency 8`, or wait for one to finish.",
    "not dispatched": "It waits for a consumer to dispatch: start a worker, if this does not change;"
    " `lonnymq workers list` shows which workers run.",
    "no consumer": "No consumer has asked for this lane for five seconds or more: start a worker that serves"
    " it (`lonnymq worker APP --lanes mail`); `lonnymq workers list` shows which workers run, and whether"
    " they are busy or paused.",
    "turn": "It waits for its turn, behind about 1,200 messages of all channels: start more workers, or raise"
    " its share with `lonnymq channels set acme --weight WEIGHT`.",
    "next": "It is next: the next consumer that asks for this lane gets it.",
}


@pytest.mark.parametrize("reason", SENTENCES)
def test_what_to_do(reason: str) -> None:
    found = ChannelExplanation("mail", 120, 3, reason, NOW - 180_000, NOW + 3_500, 4, 4, 1_200)
    due = "acme has 120 due messages in lane mail, the next one for 3 min. "
    assert explanation("acme", found, NOW).text == due + SENTENCES[reason]


NOTHING_DUE = {
    "scheduled": "acme has no due messages. The next one is scheduled: in 90 s (2030-01-01T00:01:30.000Z)."
    " 2 messages of it are running.",
    "empty": "acme has no waiting messages. 2 messages of it are running.",
    "not dispatched": "acme may have due messages, but no consumer dispatches them: start a worker;"
    " `lonnymq workers list` shows which workers run.",
}


@pytest.mark.parametrize("reason", NOTHING_DUE)
def test_nothing_is_due(reason: str) -> None:
    found = ChannelExplanation(None, 0, 2, reason, None, NOW + 90_000, None, None, None)
    assert explanation("acme", found, NOW).text == NOTHING_DUE[reason]


def test_a_tenant_is_not_told_what_is_ahead() -> None:
    found = ChannelExplanation("mail", 1, 0, "turn", None, None, None, None, None)
    assert (
        explanation("acme", found, NOW).text == "acme has 1 due message in lane mail. It waits for its turn."
    )


def test_the_reason_and_the_advice_are_sentences_of_their_own() -> None:
    found = explanation("acme", ChannelExplanation("mail", 1, 4, "concurrency", None, None, 4, 4, None), NOW)
    assert found.due == "acme has 1 due message in lane mail."
    assert found.reason == "It has 4 of 4 messages running."
    assert found.advice == (
        "Raise its limit with `lonnymq channels set acme --max-concurrency 8`, or wait for one to finish."
    )
