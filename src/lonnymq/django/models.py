"""A model without a table: Django's admin shows its pages and checks its permissions by models."""

from __future__ import annotations

from typing import Any

from django.db import models


class NoRows(models.Manager):
    """For what reads all models, such as `dumpdata`: there is no table."""

    def get_queryset(self) -> Any:
        return super().get_queryset().none()


class QueuedTask(models.Model):
    """A task in the queue. The pages of the admin read it with the functions of the queue."""

    id = models.BigAutoField(primary_key=True)

    objects = NoRows()

    class Meta:
        managed = False
        base_manager_name = "objects"
        default_permissions = ("view", "change")
        verbose_name = "task"
        verbose_name_plural = "tasks"

    def __str__(self) -> str:
        return f"task {self.pk}"
