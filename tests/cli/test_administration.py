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
    assert lonnymq("schedules", "delete", "nightly").stdout == "deleted: nightly\n"
    again = lonnymq("schedules", "delete", "nightly")
    assert again.code == 1
    assert "there is no schedule 'nightly' (`lonnymq schedules list` lists the schedules)" in again.stderr


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
        assert lonnymq("credentials", "unbind", role).stdout == f"unbound: {role}\n"
        assert queue.credentials() == []
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
