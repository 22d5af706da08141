"""The privileges of the four roles of a schema. None of them has a privilege on a table, except that
producers may insert into `staging` and `staging_chunk`.

Functions that are not named here are internal: only their owner may call them.
"""

from __future__ import annotations

from collections.abc import Mapping

from lonnymq.errors import InvalidSchemaName
from lonnymq.message_options import UNCHANGED
from lonnymq.schema_name import NAME_MAX_BYTES

ROLES = ("producer", "consumer", "observer", "admin")

MEMBER_OF_ALL = "admin"
"""The role that has all privileges of the others, and more."""

READS_VIEWS = "observer"

APPENDS_TO_STAGING = "producer"
STAGING_CHUNK = "staging_chunk"
STAGING_TABLES = ("staging", STAGING_CHUNK)
STAGING_COLUMNS = (
    "batch",
    "ord",
    "channel",
    "content",
    "dequeue_at",
    "headers",
    "unique_for_ms",
    "keep_result_ms",
    *UNCHANGED,
)

_EVERYONE = ("to_epoch", "queue_get")

# The reader of a view calls its functions, so it needs EXECUTE on them.
_VIEWS_CALL = (
    "login_is_free",
    "channel_visible",
    "message_visible",
    "dead_visible",
    "finished_visible",
    "policy_visible",
)

EXECUTES: Mapping[str, tuple[str, ...]] = {
    "producer": (
        *_EVERYONE,
        "message_create",
        "message_create_many",
        "staging_publish",
        "staging_publish_once",
        "staging_discard",
        "batch_open",
        "batch_close",
        "schedule_open",
        "schedule_fire",
        "status_get",
        "result_load",
    ),
    "consumer": (
        *_EVERYONE,
        "dispatch",
        "channels_dispatch",
        "sleep_begin",
        "sleep_look",
        "message_dequeue",
        "message_complete",
        "message_complete_many",
        "message_retry",
        "message_retry_many",
        "message_discard",
        "message_discard_many",
        "message_reject_many",
        "message_extend",
        "message_extend_many",
        "message_leased_many",
        "claim_open",
        "claim_next",
        "claim_begin",
        "claim_waiting",
        "claim_extend",
        "claim_read",
        "claim_complete",
        "progress_write",
        "result_save",
        "result_load",
        "maintain",
        "worker_report",
        "worker_leave",
    ),
    "observer": (
        *_EVERYONE,
        "channel_get",
        "channel_stats",
        "channel_explain",
        "channel_list",
        "lane_list",
        "message_get",
        "status_get",
        "result_load",
        "message_list",
        "message_place",
        "dead_list",
        "dead_groups",
        "audit_list",
        "queue_stats",
        "batch_get",
        "batch_list",
        "bound_channels",
        *_VIEWS_CALL,
        "history_bounds",
        "history_mark",
        "policy_mark",
        "history_summary",
        "history_followers",
        "schedule_list",
        "schedule_get",
        "worker_list",
        "unknown_task_list",
    ),
    "admin": (
        *_EVERYONE,
        "channel_set",
        "channel_delete",
        "queue_set",
        "message_cancel",
        "message_cancel_many",
        "message_reschedule",
        "dead_retry",
        "dead_retry_all",
        "dead_discard",
        "dead_discard_all",
        "batch_cancel",
        "credential_bind",
        "credential_list",
        "history_follow",
        "history_unfollow",
        "schedule_run",
        "schedule_pause",
        "schedule_resume",
        "schedule_delete",
        "worker_request",
        "audit_begin",
        "audit_end",
        "rebuild",
    ),
}


def role_name(schema: str, role: str) -> str:
    return f"{schema}_{role}"


def role_names(schema: str) -> list[str]:
    """The names of the roles. None if the schema's name is so long that theirs would be too long."""
    names = [role_name(schema, role) for role in ROLES]
    return names if max(len(name.encode()) for name in names) <= NAME_MAX_BYTES else []


def check_role_names(schema: str) -> None:
    """Raise InvalidSchemaName if PostgreSQL would truncate the names of the schema's roles."""
    if not role_names(schema):
        room = NAME_MAX_BYTES - max(len(role_name("", role)) for role in ROLES)
        raise InvalidSchemaName(
            f"the schema's name is {len(schema.encode())} bytes long; with roles, at most {room} are allowed"
        )
