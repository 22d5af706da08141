"""A model that reads the tasks in the queue, for the suite."""

import uuid
from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.db import connection, models
from django.utils import timezone

from lonnymq.django.result_id import new_key
from lonnymq.django.task_framework import TaskResultStatus, task_backends
from lonnymq.django.task_message import CallHeader, as_milliseconds
from lonnymq.django.task_results import Call
from lonnymq.testing.django import run_tasks

VIEW = """
CREATE OR REPLACE VIEW suite_task AS
SELECT (substr(k, 1, 12) || '4' || substr(k, 13, 3) || '8' || lpad(to_hex(t.id), 15, '0'))::UUID AS id,
    status, h ->> 'task' AS task_path, lane AS queue_name, priority,
    CASE WHEN h -> 'django' ? 'run_after' THEN to_timestamp(due_at / 1000.0) END AS run_after,
    to_timestamp((h -> 'django' ->> 'enqueued_at')::BIGINT / 1000.0) AS enqueued_at,
    workers AS worker_ids, traceback
FROM (
    SELECT id, CASE WHEN status = 'leased' THEN 'RUNNING' ELSE 'READY' END AS status, headers AS h, lane,
        priority, CASE WHEN status = 'leased' THEN jsonb_build_array(consumer) ELSE '[]' END AS workers,
        error AS traceback, dequeue_at AS due_at
    FROM lonnymq.messages
    UNION ALL
    SELECT id, 'FAILED', headers, lane, priority, jsonb_build_array(consumer), error, dequeue_at
    FROM lonnymq.dead_letters
    UNION ALL
    SELECT id, 'SUCCESSFUL', c, c ->> 'queue_name', (c ->> 'priority')::INT, c -> 'worker_ids', NULL, 0
    FROM (
        SELECT id, convert_from(content, 'UTF8')::JSONB AS c FROM lonnymq.result
        WHERE outcome = 'completed') r
    ) t CROSS JOIN LATERAL (SELECT h -> 'django' ->> 'key') x (k)
"""


def get_date_max() -> datetime:
    return datetime(9999, 1, 1, tzinfo=UTC if settings.USE_TZ else None)


class TaskQuerySet(models.QuerySet):
    def ready(self) -> Any:
        now = timezone.now()
        is_due = models.Q(run_after=None) | models.Q(run_after__lte=now)
        return self.filter(is_due, status=TaskResultStatus.READY)

    def running(self) -> Any:
        return self.filter(status=TaskResultStatus.RUNNING)

    def successful(self) -> Any:
        return self.filter(status=TaskResultStatus.SUCCESSFUL)

    def failed(self) -> Any:
        return self.filter(status=TaskResultStatus.FAILED)

    def update(self, **changes: Any) -> int:
        """Where the suite writes into its table that a task has returned a value, a worker runs the task.
        Where it writes that a time has come, the task is rescheduled.
        """
        if set(changes) == {"run_after"}:
            for each in self:
                task_backends["default"].queue.reschedule(each.id.int & (1 << 60) - 1)
        elif "return_value" in changes:
            run_tasks()
        else:
            raise NotImplementedError("the queue has no table that could be changed like this")
        return 1

    async def aupdate(self, **changes: Any) -> int:
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.update)(**changes)

    def create(self, **columns: Any) -> Any:
        """Enqueue a call of any function, as only a foreign program could."""
        backend = task_backends[columns["backend_name"]]
        header = CallHeader(new_key(), backend.alias, as_milliseconds(timezone.now()))
        call = Call(
            path=columns["task_path"],
            header=header,
            queue_name="default",
            priority=columns.get("priority", 0),
            **columns["args_kwargs"],
        )
        backend.queue.enqueue(columns["args_kwargs"], headers=header.headers(call.path), keep_result=60)
        return self.get(
            task_path=call.path, enqueued_at=datetime.fromtimestamp(header.enqueued_at / 1000, UTC)
        )


class DBTaskResult(models.Model):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    status = models.TextField()
    task_path = models.TextField()
    queue_name = models.TextField()
    priority = models.IntegerField()
    run_after = models.DateTimeField(null=True)
    enqueued_at = models.DateTimeField()
    worker_ids = models.JSONField()
    traceback = models.TextField()

    objects = TaskQuerySet.as_manager()

    class Meta:
        managed = False
        db_table = "suite_task"

    def __str__(self) -> str:
        return str(self.id)

    @property
    def task_result(self) -> Any:
        return task_backends["default"].get_result(str(self.id))

    @property
    def task(self) -> Any:
        return self.task_result.task


def create_view() -> None:
    with connection.cursor() as cursor:
        cursor.execute(VIEW)
