"""The libraries of the field: where they are documented, and what they cannot do."""

from dataclasses import dataclass, field

NO_SNAPSHOT = "Redis has no snapshots that readers hold."


@dataclass(frozen=True)
class FieldPeer:
    name: str
    title: str
    package: str
    """The package whose version is shown."""
    documents: tuple[str, ...]
    """Where the settings are recommended that it runs with."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Why it does not take part in a scenario."""


PEERS = (
    FieldPeer("lonnymq", "LonnyMQ", "lonnymq", ()),
    FieldPeer(
        "pgmq",
        "pgmq",
        "pgmq",
        ("https://github.com/pgmq/pgmq/blob/main/docs/fifo-queues.md", "https://github.com/pgmq/pgmq-py"),
    ),
    FieldPeer(
        "pgqueuer",
        "PgQueuer",
        "pgqueuer",
        (
            "https://github.com/janbjorge/pgqueuer/blob/main/docs/guides/performance-tuning.md",
            "https://github.com/janbjorge/pgqueuer/blob/main/docs/guides/heartbeat.md",
        ),
    ),
    FieldPeer(
        "procrastinate",
        "Procrastinate",
        "procrastinate",
        (
            "https://procrastinate.readthedocs.io/en/stable/howto/production/retry_stalled_jobs.html",
            "https://procrastinate.readthedocs.io/en/stable/howto/advanced/locks.html",
        ),
    ),
    FieldPeer(
        "awa",
        "awa",
        "awa-pg",
        ("https://github.com/hardbyte/awa/blob/main/docs/configuration.md",),
        {
            "limit": "Its limits belong to a queue and a worker process. Limits per key across workers are "
            "[planned](https://github.com/hardbyte/awa/blob/main/docs/adr/033-per-key-execution-control.md)."
        },
    ),
    FieldPeer(
        "oban",
        "Oban (Python)",
        "oban",
        (
            "https://github.com/oban-bg/oban-py/blob/main/docs/production.md",
            "https://github.com/oban-bg/oban-py/blob/main/docs/job_maintenance.md",
        ),
        {
            "limit": "Its limits belong to a queue and a worker process; "
            "limits across workers are part of Oban Pro, which is sold."
        },
    ),
    FieldPeer(
        "absurd",
        "absurd",
        "absurd-sdk",
        ("https://github.com/earendil-works/absurd/blob/main/docs/sdks/python.md",),
        {
            "enqueue-1000": "Its SDK spawns one task per call.",
            "limit": "It has no limits but the concurrency of a worker.",
        },
    ),
    FieldPeer(
        "chancy",
        "Chancy",
        "chancy",
        ("https://tkte.ch/chancy/",),
        {"limit": "Concurrency belongs to a worker process; only rates are limited across workers."},
    ),
    FieldPeer(
        "celery",
        "Celery, Redis",
        "celery",
        (
            "https://docs.celeryq.dev/en/stable/userguide/optimizing.html",
            "https://docs.celeryq.dev/en/stable/getting-started/backends-and-brokers/redis.html",
        ),
        {
            "enqueue-1000": "It sends one message per call.",
            "limit": "It has no limits per tenant; `rate_limit` belongs to a task and a worker.",
            "snapshot": NO_SNAPSHOT,
        },
    ),
    FieldPeer(
        "rq",
        "RQ, Redis",
        "rq",
        ("https://python-rq.org/docs/workers/", "https://python-rq.org/docs/exceptions/"),
        {"limit": "It has no limits but the number of workers.", "snapshot": NO_SNAPSHOT},
    ),
)
