"""Bad input is refused with a LonnyMQ SQLSTATE and a hint that says what is allowed, and changes nothing."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conftest import SCHEMA
from tests.database import AnyServer, create_database, drop_database, unique_name

NAME = "1 to 255 bytes"
TIME = "between -2^53 and 2^53"
DAY = "Give 1 to 86400000 ms"
MANY = "Ask for 1 to 10,000"
EACH = "one element per message"
MIB = "At most 1048576 bytes"
NOBODYS = "'00000000-0000-0000-0000-000000000000'"
TOO_LARGE = "convert_to(repeat('x', 1048577), 'UTF8')"

REFUSED = {
    "no channel": ("message_create(NULL, '')", "LM001", NAME),
    "an empty channel": ("message_create('', '')", "LM001", NAME),
    "a channel of 256 bytes": ("message_create(repeat('x', 256), '')", "LM001", NAME),
    "a channel of 128 characters and 256 bytes": ("message_create(repeat('ü', 128), '')", "LM001", NAME),
    "an empty channel in a batch": (
        "message_create_many(ARRAY['a', ''], ARRAY['', '']::BYTEA[])",
        "LM001",
        NAME,
    ),
    "a channel missing in a batch": (
        "message_create_many(ARRAY['a', NULL], ARRAY['', '']::BYTEA[])",
        "LM001",
        NAME,
    ),
    "no content": ("message_create('a', NULL)", "LM002", "Give bytes"),
    "no content in a batch": ("message_create_many(ARRAY['a'], ARRAY[NULL]::BYTEA[])", "LM002", "Give bytes"),
    "content over the limit": (f"message_create('a', {TOO_LARGE})", "LM002", MIB),
    "content over the limit in a batch": (
        f"message_create_many(ARRAY['a', 'a'], ARRAY['', {TOO_LARGE}])",
        "LM002",
        MIB,
    ),
    "a time too far": ("message_create('a', '', 9007199254740993)", "LM003", TIME),
    "a time too far back": ("message_create('a', '', -9007199254740993)", "LM003", TIME),
    "a time too far in a batch": (
        "message_create_many(ARRAY['a'], ARRAY['']::BYTEA[], ARRAY[9007199254740993])",
        "LM003",
        TIME,
    ),
    "a delay too long in a batch": (
        "message_create_many(ARRAY['a'], ARRAY['']::BYTEA[], p_delays_ms => ARRAY[9223372036854775807])",
        "LM003",
        "0 to 2^52 ms",
    ),
    "a delay too long in a batch with dedupe keys": (
        f"message_create_many('{{a}}', '{{x}}', p_dedupe_keys => '{{k}}', p_delays_ms => '{{{2**63 - 1}}}')",
        "LM003",
        "0 to 2^52 ms",
    ),
    "a retry at a time too far": (f"message_retry(1, {NOBODYS}, 9007199254740993)", "LM003", TIME),
    "a lease of nothing": ("message_dequeue(1, 0)", "LM004", DAY),
    "a lease before it began": ("message_dequeue(1, -1)", "LM004", DAY),
    "a lease above a day": ("message_dequeue(1, 86400001)", "LM004", "queue_set(p_lease_max_ms => ...)"),
    "an extension of nothing": (f"message_extend(1, {NOBODYS}, 0)", "LM004", DAY),
    "a limit of none": ("message_dequeue(0)", "LM005", MANY),
    "no limit": ("message_dequeue(NULL)", "LM005", MANY),
    "a limit too high": ("message_dequeue(10001)", "LM005", MANY),
    "a limit far too high": ("message_dequeue(2147483647)", "LM005", MANY),
    "a limit below none": ("message_dequeue(-100)", "LM005", MANY),
    "a dispatch before the last": ("dispatch(1, -1)", "LM005", "p_quiet_ms of 0 or more"),
    "a dispatch of nothing": ("dispatch(0)", "LM005", "p_limit from 1 to 100,000"),
    "a cleaning of nothing": ("maintain(0)", "LM005", "Clean 1 to 1,000,000"),
    "fewer contents than channels": (
        "message_create_many(ARRAY['a', 'b'], ARRAY['']::BYTEA[])",
        "LM006",
        EACH,
    ),
    "fewer times than channels": ("message_create_many(ARRAY['a'], ARRAY['']::BYTEA[], '{}')", "LM006", EACH),
    "no channels at all": ("message_create_many(NULL, '{}')", "LM006", "Give an array"),
    "fewer tokens than ids": ("message_complete_many(ARRAY[1], '{}')", "LM006", EACH),
    "no tokens": ("message_complete_many(ARRAY[1], NULL)", "LM006", EACH),
    "one token for nothing": ("message_complete_many('{}', ARRAY[gen_random_uuid()])", "LM006", EACH),
    "one token for no ids": (
        "message_complete_many(NULL, ARRAY[gen_random_uuid()])",
        "LM006",
        "Give an array",
    ),
    "two tokens for three": (
        "message_complete_many(ARRAY[1, 2, 3], ARRAY[gen_random_uuid(), gen_random_uuid()])",
        "LM006",
        EACH,
    ),
    "no tokens to extend": ("message_extend_many(ARRAY[1], NULL, 1000)", "LM006", EACH),
    "more errors than ids": ("message_retry_many('{}', '{}', NULL, NULL, ARRAY['e'])", "LM006", EACH),
    "negative concurrency": ("channel_set('a', -1)", "LM007", "or 0 for no limit"),
    "concurrency too high": ("channel_set('a', 10001)", "LM007", "or 0 for no limit"),
    "a negative interval": ("channel_set('a', NULL, -1)", "LM007", "or 0 for no limit"),
    "an interval above a day": ("channel_set('a', NULL, 86400000001)", "LM007", "or 0 for no limit"),
    "a limit that is given and inherited": (
        "channel_set('a', p_burst => 2, p_inherit => '{max_size, burst}')",
        "LM007",
        "Give p_burst, or name it in p_inherit",
    ),
    "a part that cannot be inherited": (
        "channel_set('a', p_inherit => '{weight}')",
        "LM007",
        "max_concurrency, release_interval_us, burst, max_size",
    ),
    "a policy for no channel": ("channel_set('', 1)", "LM001", NAME),
    "the policy of no channel": ("channel_get(NULL)", "LM001", NAME),
    "no attempts": ("message_create('a', '', NULL, NULL, 0)", "LM008", "1 to 1,000,000"),
    "no attempts in a batch": (
        "message_create_many(ARRAY['a'], ARRAY['']::BYTEA[], NULL, NULL, ARRAY[0])",
        "LM008",
        "1 to 1,000,000",
    ),
    "headers that are a list": ("message_create('a', '', NULL, '[]')", "LM010", "as a JSON object"),
    "headers that are null": ("message_create('a', '', NULL, 'null')", "LM010", "as a JSON object"),
    "headers too large": (
        "message_create('a', '', NULL, jsonb_build_object('x', repeat('y', 70000)))",
        "LM010",
        "At most 65,536 bytes of headers",
    ),
    "a consumer's name too long": (
        "message_dequeue(1, 1000, repeat('x', 256))",
        "LM010",
        "at most 255 bytes",
    ),
    "a state over the limit": (f"message_retry(1, {NOBODYS}, NULL, {TOO_LARGE})", "LM010", MIB),
    "a dedupe key of nothing": ("message_create('a', '', p_dedupe_key => '')", "LM010", "1 to 255 bytes"),
    "a dedupe key too long": (
        "message_create('a', '', p_dedupe_key => repeat('x', 256))",
        "LM010",
        "1 to 255 bytes",
    ),
    "a key held for less than nothing": (
        "message_create('a', '', p_dedupe_key => 'k', p_unique_for_ms => -1)",
        "LM010",
        "0 to 31,536,000,000",
    ),
    "a key held for ever": (
        "message_create_many('{a}', '{x}', p_dedupe_keys => '{k}', p_unique_fors_ms => '{31536000001}')",
        "LM010",
        "0 to 31,536,000,000",
    ),
    "a key held while nothing": (
        "message_create('a', '', p_dedupe_key => 'k', p_unique_while => 'dead')",
        "LM010",
        "waiting or running",
    ),
    "a key held for two times": (
        "message_create('a', '', p_dedupe_key => 'k', p_unique_while => 'waiting', p_unique_for_ms => 1)",
        "LM010",
        "Give one of the two",
    ),
    "no key to hold": ("message_create('a', '', p_unique_while => 'running')", "LM010", "Give a dedupe key"),
    "no key to hold in a batch": (
        "message_create_many('{a}', '{x}', p_unique_fors_ms => '{7}')",
        "LM010",
        "Give a dedupe key",
    ),
    "a dedupe key too long in a batch": (
        "message_create_many('{a,a}', '{x,x}', p_dedupe_keys => ARRAY[NULL, repeat('x', 256)])",
        "LM010",
        "1 to 255 bytes",
    ),
    "fewer keys than messages": (
        "message_create_many(ARRAY['a', 'a'], ARRAY['', '']::BYTEA[], p_dedupe_keys => ARRAY['k'])",
        "LM006",
        EACH,
    ),
    "a negative size": ("channel_set('a', p_max_size => -1)", "LM007", "or 0 for no limit"),
    "nobody to cancel": ("message_cancel_many(NULL)", "LM006", "Give an array"),
    "a time too far to reschedule": ("message_reschedule(1, 9007199254740993)", "LM003", TIME),
    "nobody to retry": ("dead_retry(NULL)", "LM006", "Give an array"),
    "a time too far to retry": ("dead_retry('{1}', 9007199254740993)", "LM003", TIME),
    "a retry of none": ("dead_retry_all(p_limit => 0)", "LM005", "Ask for 1 to 100000"),
    "nobody to discard": ("dead_discard(NULL)", "LM006", "Give an array"),
    "a discard of none": ("dead_discard_all(p_limit => 0)", "LM005", "Ask for 1 to 100000"),
    "not a fingerprint": ("dead_retry_all(p_fingerprint => '0123')", "LM013", "List the groups"),
    "groups of none": ("dead_groups(p_limit => 0)", "LM005", "Ask for 1 to 10000"),
    "groups of too many": ("dead_groups(p_scan => 100001)", "LM005", "Ask for 1 to 100000"),
    "a negative spread": ("dead_retry_all(p_spread_ms => -1)", "LM003", "Give 0 to 30 days"),
    "a spread of months": ("dead_retry('{1}', p_spread_ms => 2592000001)", "LM003", "Give 0 to 30 days"),
    "a list of no dead": ("dead_list(p_limit => 0)", "LM005", "Ask for 1 to 10000"),
    "an unknown status": ("message_list(NULL, 'lost')", "LM013", "waiting, due, scheduled or leased"),
    "no status": ("message_list(NULL, NULL)", "LM013", "waiting, due, scheduled or leased"),
    "a cursor of nobody's": (
        "message_list(p_after => 'nonsense')",
        "LM013",
        "the last row of the page before",
    ),
    "a cursor of other shape": ("message_list(p_after => '{}')", "LM013", "the last row of the page before"),
    "a list too long": ("message_list(p_limit => 10001)", "LM005", "Ask for 1 to 10000"),
    "waiting messages of a consumer": ("message_list(p_consumer => 'c')", "LM013", "leased messages"),
    "the next channels with a prefix": ("channel_list('next', p_prefix => 'a')", "LM013", "Order by name"),
    "an unknown order": ("channel_list('size')", "LM013", "name, next or waiting"),
    "a second page of one": ("channel_list('next', 'a')", "LM013", "order by name"),
    "a list of no channels": ("channel_list(p_limit => 0)", "LM005", "Ask for 1 to 1000"),
    "an explanation of no channel": ("channel_explain(NULL)", "LM001", NAME),
    "the state of no channel": ("channel_stats(NULL)", "LM001", NAME),
    "a count up to nothing": ("channel_stats('a', 0)", "LM005", "Ask for 1 to 1000000"),
    "a deletion of no channel": ("channel_delete('')", "LM001", NAME),
    "a deletion of nothing": ("channel_delete('a', TRUE, 0)", "LM005", "Ask for 1 to 100000"),
    "a role that is not there": ("credential_bind('nobody at all', '{}')", "LM010", "Name a role"),
    "a role without a name": ("credential_bind(NULL, '{}')", "LM010", "Name a role"),
    "a role bound to no name": ("credential_bind(current_user, ARRAY[''])", "LM001", NAME),
    "a batch without a name": ("batch_open(NULL)", "LM010", "1 to 255 bytes"),
    "a batch with an empty name": ("batch_open('')", "LM010", "1 to 255 bytes"),
    "a batch whose callback has no content": ("batch_open('b', 'a')", "LM002", "Give bytes"),
    "a batch whose callback has no channel": ("batch_open('b', NULL, 'x')", "LM001", NAME),
    "a batch whose callback is scheduled": (
        """batch_open('b', 'a', 'x', '{"delay_ms": 7}')""",
        "LM010",
        "options of message_create",
    ),
    "a batch whose callback has a dedupe key": (
        """batch_open('b', 'a', 'x', '{"dedupe_key": "k"}')""",
        "LM010",
        "options of message_create",
    ),
    "a batch whose callback has options that are a list": (
        "batch_open('b', 'a', 'x', '[]')",
        "LM010",
        "Give a JSON object",
    ),
    "a batch whose callback's priority is too high": (
        """batch_open('b', p_failure_channel => 'a', p_failure_content => 'x',
            p_failure_options => '{"priority": 101}')""",
        "LM010",
        "-100 to 100",
    ),
    "a batch whose on_failure belongs to a batch": (
        """batch_open('b', p_failure_channel => 'a', p_failure_content => 'x',
            p_failure_options => '{"batch_id": 1}')""",
        "LM010",
        "that batch would never finish",
    ),
    "a batch whose callback belongs to no batch": (
        """batch_open('b', 'a', 'x', '{"batch_id": 1.5}')""",
        "LM010",
        "the id that batch_open returned",
    ),
    "a batch whose failure belongs to a batch": (
        """batch_open('b', NULL, NULL, NULL, 'a', 'x', '{"batch_id": 1}')""",
        "LM010",
        "Leave batch_id out",
    ),
    "a batch whose callback belongs to a batch that is not there": (
        """batch_open('b', 'a', 'x', '{"batch_id": 7}')""",
        "LM018",
        "removed",
    ),
    "a message of no batch": ("message_create('a', '', p_batch_id => 7)", "LM018", "removed"),
    "messages of no batch": (
        "message_create_many('{a,a}', '{x,x}', p_batch_ids => '{NULL,7}')",
        "LM018",
        "removed",
    ),
    "fewer batches than messages": (
        "message_create_many('{a,a}', '{x,x}', p_batch_ids => '{7}')",
        "LM006",
        EACH,
    ),
    "a schedule whose messages belong to a batch": (
        """schedule_fire('s', 1, 2, '{2}', 'a', '', '{"batch_id": 1}')""",
        "LM010",
        "options of message_create",
    ),
    "an unknown status of batches": ("batch_list(p_status => 'dead')", "LM013", "open, closed, finished"),
    "a list of no batches": ("batch_list(p_limit => 0)", "LM005", "Ask for 1 to 10000"),
    "a cancelled batch of none": ("batch_cancel(1, 0)", "LM005", "Ask for 1 to 100000"),
    "an action of nobody": ("audit_begin('', 'pause')", "LM010", "Give 1 to 200 characters"),
    "an action of null": ("audit_begin(NULL, 'pause')", "LM010", "Give 1 to 200 characters"),
    "an action of a name that is too long": (
        "audit_begin(repeat('x', 201), 'pause')",
        "LM010",
        "Give 1 to 200 characters",
    ),
    "no action": ("audit_begin('zoe', '')", "LM010", "Give 1 to 200 characters"),
    "an action on no channel": ("audit_begin('zoe', 'pause', '')", "LM001", "1 to 255 bytes"),
    "an action on nothing": ("audit_begin('zoe', 'pause', 'a', '')", "LM010", "Give 1 to 1000 characters"),
    "an action with a list": ("audit_begin('z', 'x', p_details => '[]')", "LM010", "Give a JSON object"),
    "an action with too much": (
        "audit_begin('z', 'x', p_details => jsonb_build_object('x', repeat('x', 8192)))",
        "LM010",
        "at most 8,192 bytes",
    ),
    "an action without an outcome": ("audit_end(1, NULL)", "LM010", "Give 1 to 1000 characters"),
    "a summary of nothing": ("history_summary(p_rows => 0)", "LM005", "Ask for 1 to 100000"),
    "a summary of too much": ("history_summary(p_rows => 100001)", "LM005", "Ask for 1 to 100000"),
    "a summary since never": ("history_summary(p_since => 9007199254740993)", "LM003", "2^53"),
    "a list of no actions": ("audit_list(p_limit => 0)", "LM005", "Ask for 1 to 10000"),
    "actions kept for a second": ("queue_set(p_audit_keep_ms => 1000)", "LM011", "Keep them for 3,600,000"),
    "batches kept for a second": (
        "queue_set(p_batch_keep_ms => 1000)",
        "LM011",
        "Keep them for 3,600,000",
    ),
    "a schedule without a name": ("schedule_open(ARRAY['a', ''])", "LM010", "1 to 255 bytes"),
    "a schedule whose name is too long": (
        "schedule_open(ARRAY[repeat('x', 256)])",
        "LM010",
        "1 to 255 bytes",
    ),
    "a schedule that is null": ("schedule_open(ARRAY['a', NULL])", "LM010", "1 to 255 bytes"),
    "no schedules at all": ("schedule_open(NULL)", "LM006", "Give an array"),
    "ticks of no schedule": ("schedule_fire(NULL, 1, 2, '{2}', 'a', '')", "LM010", "1 to 255 bytes"),
    "no ticks at all": ("schedule_fire('s', 1, 2, NULL, 'a', '')", "LM006", "Give an array"),
    "too many ticks": (
        "schedule_fire('s', 0, 1001, ARRAY(SELECT generate_series(1, 1001)), 'a', '')",
        "LM005",
        "up to 1,000",
    ),
    "a tick that was": ("schedule_fire('s', 2, 3, '{2}', 'a', '')", "LM003", "ascend"),
    "a tick beyond": ("schedule_fire('s', 2, 3, '{4}', 'a', '')", "LM003", "ascend"),
    "a tick twice": ("schedule_fire('s', 2, 9, '{4,4}', 'a', '')", "LM003", "ascend"),
    "ticks that descend": ("schedule_fire('s', 2, 9, '{5,4}', 'a', '')", "LM003", "ascend"),
    "a tick that is null": ("schedule_fire('s', 2, 9, '{5,NULL}', 'a', '')", "LM003", "ascend"),
    "a schedule that goes back": ("schedule_fire('s', 2, 1, '{}', 'a', '')", "LM003", "ascend"),
    "a schedule that stays": ("schedule_fire('s', 2, 2, '{}', 'a', '')", "LM003", "ascend"),
    "a schedule from nowhere": ("schedule_fire('s', NULL, 2, '{2}', 'a', '')", "LM003", "ascend"),
    "a schedule to nowhere": ("schedule_fire('s', 2, NULL, '{}', 'a', '')", "LM003", "ascend"),
    "a tick out of range": (
        "schedule_fire('s', -9007199254740993, 2, '{1}', 'a', '')",
        "LM003",
        "Unix milliseconds",
    ),
    "a tick too far": (
        "schedule_fire('s', 1, 9007199254740993, '{2}', 'a', '')",
        "LM003",
        "Unix milliseconds",
    ),
    "a schedule whose lane is an object": (
        """schedule_fire('s', 1, 2, '{2}', 'a', '', '{"lane": {"a": 1}}')""",
        "LM010",
        "Give a string",
    ),
    "a schedule whose headers are a text": (
        """schedule_fire('s', 1, 2, '{2}', 'a', '', '{"headers": "a"}')""",
        "LM010",
        "JSON object",
    ),
    "no content allowed": ("queue_set(0)", "LM011", "1 byte to 256 MiB"),
    "no lease allowed": ("queue_set(NULL, 0)", "LM011", "1 to 31,536,000,000 ms"),
    "no attempts allowed": ("queue_set(NULL, NULL, 0)", "LM011", "1 to 1,000,000"),
    "a default lease of nothing": ("queue_set(p_lease_ms => 0)", "LM011", "Give 1 to 86400000 ms"),
    "a default lease above the longest": (
        "queue_set(p_lease_max_ms => 29999)",
        "LM011",
        "Give 1 to 29999 ms",
    ),
    "negative concurrency of all": ("queue_set(p_max_concurrency => -1)", "LM011", "or 0 for no limit"),
    "concurrency of all too high": ("queue_set(p_max_concurrency => 10001)", "LM011", "or 0 for no limit"),
    "history kept for minutes": ("queue_set(p_history_keep_ms => 60000)", "LM011", "or 0 for ever"),
    "history kept for less than nothing": ("queue_set(p_history_keep_ms => -1)", "LM011", "or 0 for ever"),
}


def contents(conn: psycopg.Connection) -> list[Any]:
    tables = (
        *("queue", "message", "dead", "channel", "notice", "line", "ready", "lease", "tick", "maintenance"),
        *("dedupe", "capacity", "departure", "slots", "finished", "sleep", "tally", "staging", "credential"),
        *("staging_chunk", "ledger", "claimant", "claim", "follower", "schedule"),
    )
    return [conn.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]


@pytest.fixture(scope="module")
def shared(server: AnyServer, template: str) -> Iterator[psycopg.Connection]:
    """One database for all refused calls, since none of them changes it."""
    name = unique_name("lonnymq_refusals")
    create_database(server, name, template)
    with psycopg.connect(server.dsn(name), autocommit=True, options=f"-c search_path={SCHEMA}") as conn:
        conn.execute("SELECT message_create('a', 'as it was')")
        conn.execute("SELECT dispatch()")
        yield conn
    drop_database(server, name)


@pytest.mark.parametrize(("call", "sqlstate", "hint"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_input_is_refused(shared: psycopg.Connection, call: str, sqlstate: str, hint: str) -> None:
    conn = shared
    before = contents(conn)
    with pytest.raises(psycopg.Error) as error:
        conn.execute("SELECT * FROM " + call)
    assert error.value.sqlstate == sqlstate
    assert hint in (error.value.diag.message_hint or "")
    assert contents(conn) == before


def test_values_at_the_bounds_are_accepted(conn: psycopg.Connection) -> None:
    for call in (
        "message_create(repeat('x', 255), convert_to(repeat('x', 1048576), 'UTF8'), 2^53::BIGINT, '{}')",
        "message_create('a', '', NULL, NULL, 1000000)",
        "message_create('a', '', -2^53::BIGINT, NULL, 1)",
        "message_dequeue(10000, 86400000, repeat('x', 255))",
        "channel_set('a', 10000, 86400000000, 1000000)",
        "queue_set(268435456, 31536000000, 1000000, 1, 10000, FALSE, TRUE, TRUE, 3600000)",
        "message_create('a', '', p_dedupe_key => repeat('x', 255))",
        "message_create('a', '', p_dedupe_key => 'k', p_unique_for_ms => 31536000000)",
        "message_dequeue(1, 31536000000)",
    ):
        conn.execute("SELECT * FROM " + call.replace("2^53::BIGINT", "9007199254740992"))


def test_arrays_may_have_any_shape(conn: psycopg.Connection) -> None:
    """Their elements count, in order, whatever the dimensions and the lower bound."""
    conn.execute(
        """
        SELECT message_create_many('{{a, b}}', '{{x, y}}', p_dedupe_keys => '{{k, k}}', p_lanes => '{{l, m}}',
            p_unique_whiles => '{{running, NULL}}', p_unique_fors_ms => '{{NULL, 7}}',
            p_batch_ids => '{{NULL, NULL}}')"""
    )
    conn.execute("SELECT dispatch()")
    rows = conn.execute(
        "SELECT id, token FROM message_dequeue(2, p_lanes => '{{l, m}}') ORDER BY id"
    ).fetchall()
    (first, token), (second, _) = rows
    given = {"ids": [[first, second]], "token": [token]}
    conn.execute("SELECT progress_write(%(ids)s, %(token)s, '[0:1]={0.25, 0.5}', '{{one, two}}')", given)
    noted = conn.execute("SELECT fraction, note FROM progress ORDER BY id").fetchall()
    assert noted == [(0.25, "one"), (0.5, "two")]
    extended = "SELECT result FROM message_extend_many(%(ids)s, %(token)s, 9000, '{{one, NULL}}')"
    assert conn.execute(extended, given).fetchall() == [("extended",)] * 2
    retried = "SELECT result FROM message_retry_many(%(ids)s, %(token)s, p_are_final => '[0:1]={t, f}')"
    assert conn.execute(retried, given).fetchall() == [("dead",), ("retried",)]


def test_a_batch_says_which_element_was_wrong(conn: psycopg.Connection) -> None:
    wrong = r"the time 9007199254740993 is out of range \(message 2 of 3\)"
    with pytest.raises(psycopg.Error, match=wrong):
        conn.execute(
            "SELECT message_create_many(%s, %s::BYTEA[], %s)", (["a"] * 3, [b""] * 3, [None, 2**53 + 1, None])
        )


def settings(conn: psycopg.Connection, call: str = "queue_get()") -> dict[str, Any]:
    with conn.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute("SELECT * FROM " + call).fetchone()
    assert row is not None
    return row


def test_settings_are_stored(conn: psycopg.Connection) -> None:
    defaults = {
        "content_max_bytes": 1048576,
        "lease_ms": 30_000,
        "lease_max_ms": 86_400_000,
        "max_attempts": 5,
        "max_concurrency": None,
        "paused": False,
        "history": False,
        "history_content": False,
        "history_keep_ms": 2_592_000_000,
        "batch_keep_ms": 604_800_000,
        "audit_keep_ms": 7_776_000_000,
        "notify": True,
        "channel_max_concurrency": None,
        "channel_release_interval_us": None,
        "channel_burst": 1,
        "channel_max_size": None,
    }
    found = settings(conn)
    assert found.pop("notify_channel").startswith("lonnymq_")
    assert found == defaults
    for name, value in {
        "content_max_bytes": 10,
        "lease_ms": 1000,
        "lease_max_ms": 50_000,
        "max_attempts": 2,
        "max_concurrency": 3,
        "paused": True,
        "history": True,
        "history_content": True,
        "history_keep_ms": 0,
        "notify": False,
    }.items():
        defaults[name] = value
        found = settings(conn, f"queue_set(p_{name} => {value})")
        assert found.items() >= defaults.items(), "what is omitted keeps its value"
        assert found == settings(conn)
    assert settings(conn, "queue_set(p_max_concurrency => 0)")["max_concurrency"] is None
    with pytest.raises(psycopg.Error, match="the content is 11 bytes long"):
        conn.execute("SELECT message_create('a', '12345678901')")
