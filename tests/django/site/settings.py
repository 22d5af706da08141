"""The settings, as a project writes them. LONNYMQ_DJANGO_DSN is the server."""

import os
from typing import Any

import django
from psycopg.conninfo import conninfo_to_dict

server = conninfo_to_dict(os.environ["LONNYMQ_DJANGO_DSN"])
DATABASE: dict[str, Any] = {
    "ENGINE": "django.db.backends.postgresql",
    "HOST": server.get("host", ""),
    "PORT": server.get("port", ""),
    "NAME": server.get("dbname", ""),
    "USER": server.get("user", ""),
    "PASSWORD": server.get("password", ""),
}
DATABASES = {"default": DATABASE, "elsewhere": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
HAS_TASKS = django.VERSION >= (6, 0)
INSTALLED_APPS = [
    *([] if HAS_TASKS else ["django_tasks"]),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "lonnymq.django",
    "tests.django.site.shop",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ROOT_URLCONF = "tests.django.site.urls"
SECRET_KEY = "of a test"  # noqa: S105
STATIC_URL = "static/"
USE_TZ = True
LOGGING = {  # most tasks fail on purpose
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {
        name: {"level": os.environ.get("LOG_LEVEL", "CRITICAL")}
        for name in ("lonnymq", "django.tasks", "django_tasks")
    },
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
TASKS = {
    "default": {
        "BACKEND": "lonnymq.django.LonnyMQBackend",
        "QUEUES": ["default", "reports"],
        "OPTIONS": {"channel": "tests.django.site.shop.tenants.channel_of", "lease": 1},
    },
    "second": {
        "BACKEND": "lonnymq.django.LonnyMQBackend",
        "QUEUES": [],
        "OPTIONS": {"schema": "lonnymq_second", "max_attempts": 3, "backoff": 0},
    },
    "immediate": {"BACKEND": "lonnymq.django.ImmediateBackend"},
}
