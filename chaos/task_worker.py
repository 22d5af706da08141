"""The real worker, with one task. It completes each message in the transaction that writes its effect."""

import json
import sys
from pathlib import Path

import psycopg
import psycopg_pool

from chaos.client import UNREACHABLE, Settings
from chaos.journal import Journal, Outcome
from chaos.world import SCHEMA, TASK_LANE, key_of
from lonnymq import App, Job, Queue, Worker
from lonnymq.commands import Delivery
from lonnymq.errors import DatabaseUnreachable

EFFECTS = "CREATE TABLE chaos_effect (key BIGINT NOT NULL, message BIGINT NOT NULL, worker TEXT NOT NULL)"
EFFECT = "INSERT INTO public.chaos_effect VALUES (%s, %s, %s)"
CONCURRENCY = 4


def make_app(settings: Settings, journal: Journal) -> App:
    queue = Queue(settings.dsn, schema=SCHEMA)
    app = App(queue)
    pool = psycopg_pool.ConnectionPool(
        settings.dsn,
        min_size=1,
        max_size=CONCURRENCY,
        kwargs={"options": f"-c search_path={SCHEMA}"},
        open=True,
    )
    indexes = {channel.name: i for i, channel in enumerate(settings.world.channels)}

    @app.consume
    def work(message: Delivery) -> None:
        key = key_of(message.content)
        call = journal.before(
            "work",
            keys=[key],
            ids=[message.id],
            channels=[indexes.get(message.channel, -1)],
            attempts=message.attempts,
        )
        outcome: Outcome = "unknown"
        try:
            with pool.connection() as conn:
                conn.execute(EFFECT, (key, message.id, settings.name))
                Job.current().complete(conn=conn)
            outcome = "ok"
        except psycopg.OperationalError:
            raise
        except BaseException:
            outcome = "rolled back"
            raise
        finally:
            journal.after(call, outcome)

    return app


def main() -> None:
    settings = Settings(**json.loads(sys.argv[1]))
    journal = Journal(Path(settings.folder) / f"{settings.name}.jsonl", settings.name)
    worker = Worker(
        make_app(settings, journal),
        concurrency=CONCURRENCY,
        lanes=[TASK_LANE],
        lease=settings.lease_ms / 1000,
        name=settings.name,
        shutdown_timeout=2,
    )
    try:
        code = worker.run()
    except DatabaseUnreachable:  # when it started; later, it waits
        code = UNREACHABLE
    journal.write({"kind": "stop"})
    sys.exit(code)


if __name__ == "__main__":
    main()
