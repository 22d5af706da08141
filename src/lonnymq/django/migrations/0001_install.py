"""Installs the schemas that backends in TASKS use in the database that is migrated, or upgrades them. Later
releases are installed after `migrate`, too: see `lonnymq.django.schemas`.
"""

from typing import Any

from django.db import migrations, models

from lonnymq.django.schemas import install_in, uninstall_from


def install(_: Any, schema_editor: Any) -> None:
    install_in(schema_editor.connection.alias)


def uninstall(_: Any, schema_editor: Any) -> None:
    uninstall_from(schema_editor.connection.alias)


class Migration(migrations.Migration):
    initial = True
    atomic = False
    dependencies = ()
    operations = (
        migrations.RunPython(install, uninstall),
        migrations.CreateModel(
            name="QueuedTask",
            fields=[("id", models.BigAutoField(primary_key=True, serialize=False))],
            options={
                "verbose_name": "task",
                "verbose_name_plural": "tasks",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view", "change"),
            },
        ),
    )
