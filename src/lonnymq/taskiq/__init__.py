"""taskiq on a queue of LonnyMQ: broker, result backend and schedule source.

    broker           kicks tasks into the queue, and gives leased messages to taskiq's receiver
    labels           the labels of a task as options of its message: tenant, lane, priority, delay and others
    consumer         what a taskiq worker has leased, until the database has the outcome
    run_middleware   tells the consumer what taskiq's receiver does with a message
    task_message     one leased message with a task
    result_backend   results and progress
    schedule_source  schedules that are stored in the queue, each sent once by any number of schedulers
    queue_source     the queue that all of them use

```python
from lonnymq.taskiq import LonnyMQBroker, LonnyMQResultBackend

broker = LonnyMQBroker("postgresql://localhost/shop")
broker = broker.with_result_backend(LonnyMQResultBackend(broker))
```
"""

from __future__ import annotations

from lonnymq.errors import MissingExtra

try:
    import taskiq as _taskiq  # noqa: F401 - whether it is there
except ImportError:
    raise MissingExtra("lonnymq.taskiq needs taskiq", "pip install 'lonnymq[taskiq]'") from None

from lonnymq.taskiq.broker import LonnyMQBroker
from lonnymq.taskiq.labels import InvalidLabel
from lonnymq.taskiq.result_backend import LonnyMQResultBackend
from lonnymq.taskiq.run_middleware import TaskInterrupted
from lonnymq.taskiq.schedule_source import LonnyMQScheduleSource

__all__ = [
    "InvalidLabel",
    "LonnyMQBroker",
    "LonnyMQResultBackend",
    "LonnyMQScheduleSource",
    "TaskInterrupted",
]
