"""The name under which PostgreSQL keeps rows for a table. It does not depend on where the table is.

A table that was moved or renamed keeps its identity, and so its follower. A copy gets an identity of its own
when it is archived the first time, if the original is still in its folder; otherwise it counts as moved.
"""

from __future__ import annotations

import hashlib
import uuid

from lonnymq.spark.lake.lake_table import LakeTable

NAME_MAX_BYTES = 255


def settle_identity(table: LakeTable) -> str:
    """The identity of the table, after recording where it is now."""
    identity = table.identity
    if table.folder == table.uri:
        return identity
    if table.is_copied():
        # Not random, so that it is the same again if the copy is restored to a version from before.
        identity = str(uuid.uuid5(uuid.UUID(identity), table.uri))
    table.remember(identity)
    return identity


def follower(table: str, identity: str) -> str:
    """
    >>> follower("history", "716b2be3-c81e-4ce5-84cd-d2a9248d52d9")
    'archive history 716b2be3-c81e-4ce5-84cd-d2a9248d52d9'
    """
    return f"archive {table} {identity}"


def former_follower(uri: str) -> str:
    """The name of the follower before tables had an identity: their path, shortened if it is long."""
    name = f"archive {uri}".encode()
    if len(name) > NAME_MAX_BYTES:
        digest = hashlib.blake2b(name, digest_size=8).hexdigest()
        name = f"archive {digest} ...".encode() + name[-200:]
    return name.decode(errors="ignore")
