"""The settings of the suite: our backend under the name of theirs."""

import os

import django
from psycopg.conninfo import conninfo_to_dict

given = conninfo_to_dict(os.environ["LONNYMQ_SUITE_DSN"])
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": given["host"],
        "PORT": given["port"],
        "NAME": given["dbname"],
        "USER": given["user"],
        "PASSWORD": given.get("password", ""),
    }
}
INSTALLED_APPS = [
    *([] if django.VERSION >= (6, 0) else ["django_tasks"]),
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "lonnymq.django",
    "django_tasks_db",
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
SECRET_KEY = "of a test"  # noqa: S105
USE_TZ = True
TASKS = {"default": {"BACKEND": "django_tasks_db.DatabaseBackend"}}
