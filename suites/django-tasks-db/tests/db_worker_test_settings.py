"""The settings of the workers that the suite starts."""

from suite_settings import *  # noqa: F403
