"""The app of Django."""

from __future__ import annotations

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate


class LonnyMQConfig(AppConfig):
    name = "lonnymq.django"
    label = "lonnymq"
    verbose_name = "LonnyMQ"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from lonnymq.django.checks import check_schemas
        from lonnymq.django.schemas import upgrade_after_migrate

        checks.register(check_schemas, checks.Tags.database)
        post_migrate.connect(upgrade_after_migrate, sender=self)
