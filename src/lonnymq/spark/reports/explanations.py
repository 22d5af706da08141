"""What the numbers of the report mean. The page shows these texts."""

from __future__ import annotations

MEANINGS = {
    "Wait": """
The time from when a message was due, or was created if that is later, to its first dequeue. "p95 is 4 s"
means that 95 of 100 messages waited 4 s or less. Two kinds of messages are not counted: those whose first due
time is unknown (dead letters that were retried, and messages that were retried with a delay, in an archive of
an older version), and those that were cancelled before their first dequeue.
""",
    "Share and entitlement": """
A tenant's share is its part of all that was served, by the costs of the messages; every attempt counts. Its
entitlement is the part that it should have had. For that, time is divided into buckets. In each bucket, and
in each lane, what was served is distributed by weight among the tenants, but none is given more than it asked
for (what it was served, and what still waits at the end) or than its own limits allow. A message counts as
waiting from 100 ms after it is due on, because it takes up to 60 ms until the dispatcher has read it.
""",
    "Held back": """
How long a tenant had messages waiting that its own policy held back: a pause, a rate, or a concurrency limit.
The capacity that it did not use went to others, as it should.
""",
    "Jain's index": """
How equally the tenants were served that competed, which means that they could have had more but for the
others: of each of them, what it was served is divided by what it was entitled to while it competed. The index
is 1 if these numbers are equal, and 1/n if one of n tenants got everything. Tenants that were entitled to
fewer than ten messages while they competed do not count.
""",
    "Misallocated": """
The part of all that was served that should have gone to other tenants: what tenants got less than they were
entitled to. What a tenant is behind is carried over from one bucket to the next, and one message does not
count, because a message cannot be divided.
""",
    "Per second": """
Completed messages, divided by the time of the report: from the first dequeue to the last finish.
""",
    "Retries": "Attempts after the first.",
    "Work": """
The time from each dequeue to the end of that attempt, of messages that were completed or used up their
attempts. An archive of an older version has only the last attempt.
""",
    "Not included": """
The numbers of messages are of finished ones. Messages that still wait or are being processed count only for
the entitlement, and only if the report was given them.
""",
}

LIMITS_UNKNOWN = (
    "The limits of the tenants are not known: the report was made without the log of policies. So nobody"
    " counts as held back by a limit of its own, and every weight counts as 1."
)
