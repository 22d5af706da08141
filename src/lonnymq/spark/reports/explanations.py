"""What the numbers of the report mean. The page shows these texts."""

from __future__ import annotations

MEANINGS = {
    "Wait": """
The time from when a message was due, or was created if that is later, to its first dequeue. "p95 is 4 s"
means that 95 of 100 messages waited 4 s or less. Two kinds of messages are not counted: those whose due time
was changed after their first dequeue (by a retry with a delay, or by retrying a dead letter), because their
original due time is unknown, and those that were cancelled before their first dequeue.
""",
    "Share and fair share": """
Time is divided into buckets. A tenant is backlogged in a bucket if it had messages waiting at the start and
at the end of the bucket. Where two or more tenants are backlogged, they compete. A tenant's share is the
number of its messages that were served (first dequeues), divided by that number for all competing tenants.
Its fair share is 1 divided by the number of competing tenants. Both are averaged over the buckets in which
it competed, weighted by the messages served. A tenant that never competed has neither. Every message counts
as 1, whatever its cost and its tenant's weight: a tenant with a higher weight rightly gets more than its fair
share. A tenant rightly gets less if its messages cost more, if it is paused, or if its own policy limits it.
""",
    "Jain's index": """
How evenly the competing tenants of a bucket were served: 1 when all got the same, 1/n when one of n got
everything. It is averaged in the same way. A bucket with fewer served messages than tenants cannot reach 1;
"at best" is the index that an even distribution would have had.
""",
    "Per second": """
Completed messages, divided by the time of the report: from the first dequeue to the last finish.
""",
    "Retries": "Attempts after the first.",
    "Work": """
The time from the last dequeue to the finish, of messages that were completed or used up their attempts.
Earlier attempts are not included.
""",
    "Not included": """
Messages that still wait or are being processed: the history has only finished messages.
""",
}
