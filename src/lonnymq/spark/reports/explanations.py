"""What the report's numbers mean, in plain words, for its page."""

from __future__ import annotations

MEANINGS = {
    "Wait": """
From when a message was due, or created if that is later, to its first dequeue. "p95 is 4 s" says that 95 of
100 messages waited no longer than that. Not counted are messages that were put off after their first
dequeue (retried with a delay, or brought back from the dead), as they no longer tell when they were due at
first; and those that were cancelled before anyone had them.
""",
    "Share and fair share": """
Time is cut into buckets. A tenant is backlogged in a bucket if it had messages waiting at its start and at
its end. Where two or more tenants are backlogged, they compete: a tenant's share is what it was served over
what they all were served, in first dequeues; its fair share is 1 over how many they were. Both are averaged
over the buckets in which it competed, weighted by the messages served. A tenant that never competed has
neither. Messages are counted, and weights and costs are left out: a tenant with a higher weight rightly gets
more than its fair share, and one whose messages cost more, or that is paused or held back by limits of its
own, rightly gets less.
""",
    "Jain's index": """
For each bucket, how evenly those who competed were served: 1 when all got the same, 1/n when one of n got
everything; averaged in the same way. Where there are fewer messages than tenants in a bucket nobody can
reach 1; "at best" is the index of messages dealt out one by one.
""",
    "A second": """
Completed messages over the whole time of the report, which is from the first dequeue to the last end.
""",
    "Retries": "Attempts after the first.",
    "Work": """
From the last dequeue to the end, of messages that were completed or died. Earlier attempts are not in it.
""",
    "What is not here": """
Messages that still wait, or are being worked on: a history has what has finished.
""",
}
