"""Makes kombu know the scheme `lonnymq+postgresql`.

kombu has no entry points for transports. It does load those for serializers when it starts, so the package
has one of these: loading it registers the transport. The serializer itself can neither encode nor decode.
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

SCHEMES = ("lonnymq", "lonnymq+postgresql", "lonnymq+postgres")
SERIALIZER = (None, None, "application/x-lonnymq-transport")


def register() -> None:
    """Let kombu find the transport by the scheme of a URL. Importing `lonnymq.kombu` calls it."""
    for scheme in SCHEMES:
        TRANSPORT_ALIASES[scheme] = "lonnymq.kombu.transport:Transport"
