"""What can go wrong before a test has its database."""

from lonnymq.errors import LonnyMQError


class NoDatabase(LonnyMQError):
    """There is no server to make databases on, or it does not let us make any."""
