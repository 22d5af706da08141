"""lonnymq schedules, credentials, followers: each lists what there is, and changes one of it."""

import psycopg
import pytest
from psycopg import sql

from lonnymq import Queue
from tests.cli.conftest import Run
from tests.database import unique_name


def test_schedules(conn: psycopg.Connection, lonnymq: Run) -> None:
    assert lonnymq("schedules", "list").stderr == "There are no schedules.\n"
    conn.execute("SELECT schedule_open('{nightly}')")
    [found] = lonnymq("schedules", "list", "--json").records
    assert (found["name"], found["fired_at"]) == ("nightly", None)
    assert "nightly" in lonnymq("schedules", "list").stdout
    undefined = lonnymq("schedules", "run", "nightly")
    assert (undefined.code, "no worker has said what schedule 'nightly' enqueues" in undefined.stderr) == (
        1,
        True,
    )
    assert lonnymq("schedules", "delete", "nightly").stdout == "deleted: nightly\n"
    again = lonnymq("schedules", "delete", "nightly")
    assert again.code == 1
    assert "there is no schedule 'nightly' (`lonnymq schedules list` lists the schedules)" in again.stderr


DEFINE = """
    SELECT schedule_open('{nightly}', ARRAY['30 7 * * *'], '{Europe/Berlin}', '{all}', '{reports}',
        ARRAY['{"day": 1}'::BYTEA],
        ARRAY['{"headers": {"task": "report", "content-type": "application/json"}, "priority": 3}'::JSONB])"""


def test_one_schedule(conn: psycopg.Connection, queue: Queue, lonnymq: Run) -> None:
    conn.execute(DEFINE)
    conn.execute("UPDATE schedule SET ticked_at = 4085980200000")  # 2099-06-24T10:30Z
    listed = lonnymq("schedules", "list").stdout.splitlines()
    assert listed[0].split("  ")[0] == "schedule"
    assert "30 7 * * *  reports  2099-06-25 07:30 Europe/Berlin" in listed[1]
    shown = dict(line.split("  ", 1) for line in lonnymq("schedules", "show", "nightly").stdout.splitlines())
    fields = {name: text.strip() for name, text in shown.items()}
    assert fields["next run"] == "2099-06-25 07:30 Europe/Berlin"
    assert fields["payload"] == '{"day": 1}'
    assert (fields["options"], fields["missed times"]) == ("priority 3", "one message each")
    record = lonnymq("schedules", "show", "nightly", "--json").record
    assert (record["payload"], record["next_at"]) == ({"day": 1}, 4086048600000)
    assert lonnymq("schedules", "show", "daily").code == 1


def test_run_pause_and_resume(conn: psycopg.Connection, queue: Queue, lonnymq: Run) -> None:
    conn.execute(DEFINE)
    assert lonnymq("schedules", "run", "nightly").stdout == "created: message 1\n"
    [message] = queue.dequeue()
    assert (message.channel, message.payload) == ("reports", {"day": 1})
    assert (message.headers or {})["schedule-run"] is True
    assert lonnymq("schedules", "pause", "nightly").stdout == "paused: nightly\n"
    [paused] = lonnymq("schedules", "list", "--json").records
    assert (paused["paused_at"] is not None, paused["next_at"]) == (True, None)
    assert "paused" in lonnymq("schedules", "list").stdout
    assert lonnymq("schedules", "run", "nightly", "--json").record["result"] == "created"
    resumed = lonnymq("schedules", "resume", "nightly", "--catch-up", "--json").record
    assert resumed == {"name": "nightly", "result": "resumed"}
    [running] = queue.schedules()
    assert (running.is_paused, running.ticked_at) == (False, paused["ticked_at"])
    queue.pause_schedule("nightly")
    assert lonnymq("schedules", "resume", "nightly").stdout == "resumed: nightly\n"
    assert queue.schedules()[0].ticked_at > running.ticked_at
    assert "no worker runs it" not in lonnymq("schedules", "list").stdout
    conn.execute("UPDATE schedule SET ticked_at = ticked_at - 86400000")
    assert "no worker runs it" in lonnymq("schedules", "list").stdout
    for call in ("run", "pause", "resume"):
        missing = lonnymq("schedules", call, "daily")
        assert (missing.code, "there is no schedule 'daily'" in missing.stderr) == (1, True)


def test_a_schedule_whose_channel_is_full(conn: psycopg.Connection, queue: Queue, lonnymq: Run) -> None:
    conn.execute(DEFINE)
    queue.channel("reports").set(max_size=1)
    queue.enqueue("first", channel="reports")
    conn.execute(
        "SELECT schedule_fire('nightly', s.ticked_at, s.ticked_at + 1, ARRAY[s.ticked_at + 1], 'reports', '')"
        " FROM schedule s"
    )
    assert "1, last " in lonnymq("schedules", "list").stdout
    assert "the channel was full" in lonnymq("schedules", "show", "nightly").stdout
    full = lonnymq("schedules", "run", "nightly")
    assert (full.code, "the channel of schedule 'nightly' is full" in full.stderr) == (1, True)


def test_credentials(conn: psycopg.Connection, queue: Queue, lonnymq: Run) -> None:
    role = unique_name("tenant")
    conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    try:
        assert lonnymq("credentials", "list").stderr == "No login is bound to channels.\n"
        assert lonnymq("credentials", "bind", role, "acme", "bluebird").stdout == (
            f"bound: {role} to acme, bluebird\n"
        )
        assert lonnymq("credentials", "list", "--json").records == [
            {"role": role, "channels": ["acme", "bluebird"]}
        ]
        assert [(found.role, found.channels) for found in queue.credentials()] == [
            (role, ["acme", "bluebird"])
        ]
        assert queue.bound_channels() is None, "of this login"
        assert lonnymq("credentials", "bind", role, "acme", "--json").records == [
            {"role": role, "channels": ["acme"]}
        ]
        assert lonnymq("credentials", "unbind", role).stdout == f"unbound: {role}\n"
        assert queue.credentials() == []
        again = lonnymq("credentials", "unbind", role)
        assert again.code == 1
        assert f"{role} is not bound to channels (`lonnymq credentials list` lists" in again.stderr
    finally:
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_login_that_does_not_exist(lonnymq: Run) -> None:
    done = lonnymq("credentials", "bind", "nobody_of_this_name", "acme")
    assert done.code == 2
    assert "nobody_of_this_name" in done.stderr
    assert "Traceback" not in done.stderr


def test_followers(conn: psycopg.Connection, lonnymq: Run) -> None:
    assert lonnymq("followers", "list").stderr == "Nobody follows the history.\n"
    conn.execute("SELECT history_follow('lake', '10:10:')")
    assert [found["name"] for found in lonnymq("followers", "list", "--json").records] == ["lake"]
    assert lonnymq("followers", "forget", "lake").stdout == "forgotten: lake\n"
    assert lonnymq("followers", "forget", "lake").code == 1


@pytest.mark.parametrize("group", ["schedules", "credentials", "followers"])
def test_without_a_command_the_help_is_shown(lonnymq: Run, group: str) -> None:
    done = lonnymq(group)
    assert f"lonnymq {group} list" in lonnymq(group, "list", "--help").stdout
    assert "Usage" in done.stdout + done.stderr


def test_rebuild_keeps_every_message(queue: Queue) -> None:
    queue.enqueue_many(range(5))
    queue.dispatch()
    queue.rebuild()
    assert sorted(message.payload for message in queue.dequeue(10)) == list(range(5))
