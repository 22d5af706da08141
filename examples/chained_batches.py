"""Imports rows as a batch. When all are done, its callback opens a second batch, which makes the reports.

python examples/chained_batches.py postgresql://...
"""

import os
import sys

import psycopg

from lonnymq import App, Job, Queue, Worker

TENANTS = ["acme", "bluebird"]
ROWS = 3


def print_counts() -> None:
    if (batch := Job.current().batch) is not None:
        print(f"{batch.name}: {batch.completed} of {batch.total} completed, {batch.dead} dead")


def main(dsn: str) -> None:
    with Queue(dsn) as queue, psycopg.connect(dsn, autocommit=True) as setup:
        queue.install()  # once, when you deploy
        setup.execute("CREATE TABLE IF NOT EXISTS imported (tenant TEXT, number INT)")
        app = App(queue)

        @app.task
        def import_row(tenant: str, number: int) -> None:
            with psycopg.connect(dsn) as conn:
                conn.execute("INSERT INTO imported VALUES (%s, %s)", (tenant, number))
                Job.current().complete(conn=conn)

        @app.task
        def make_report(tenant: str) -> None:
            with psycopg.connect(dsn) as conn:
                rows = conn.execute("SELECT FROM imported WHERE tenant = %s", (tenant,)).fetchall()
            print(f"report for {tenant}: {len(rows)} rows")

        @app.task
        def reports_made() -> None:
            print_counts()

        @app.task
        def rows_imported() -> None:
            """Opens the next batch and completes itself in one transaction: it cannot open it twice."""
            print_counts()
            with psycopg.connect(dsn) as conn:
                with queue.batch("reports", on_complete=reports_made.message(), conn=conn) as batch:
                    for tenant in TENANTS:
                        make_report.using(channel=tenant, batch=batch).enqueue(tenant)
                Job.current().complete(conn=conn)

        with queue.batch("rows", on_complete=rows_imported.message()) as batch:
            batch.enqueue_many(
                import_row.using(channel=tenant).message(tenant, number)
                for number in range(ROWS)
                for tenant in TENANTS
            )
        Worker(app, concurrency=1).run(until_empty=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else os.environ["LONNYMQ_DSN"])
