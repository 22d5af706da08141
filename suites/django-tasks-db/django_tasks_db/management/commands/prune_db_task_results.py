"""The queue deletes results by itself, when the time of `keep_result` is over."""

import logging
from typing import Any

from django.core.management.base import BaseCommand, CommandError

logger = logging.getLogger(__name__)


class Command(BaseCommand):
    def handle(self, *_: Any, **__: Any) -> None:
        raise CommandError("there is no such command")
