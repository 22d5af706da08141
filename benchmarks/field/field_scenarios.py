"""The scenarios of the field. Each runs one queue once and returns what it measured, by name."""

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import inf

import psycopg

from benchmarks.field.stage import NothingRan, Stage
from benchmarks.task_queues.child import Child
from benchmarks.task_queues.child_command import Send, SendPaced
from benchmarks.task_queues.task_log import TaskEvent
from benchmarks.task_queues.task_queue import Mode, tenant_of

Values = dict[str, float]

NOISY, QUIET = 1, range(2, 101)
QUIET_PER_SECOND = 20
QUIET_TASK_SECONDS = 0.05
QUIET_TIMEOUT_SECONDS = 20
LIMITED_TENANTS = range(1, 101)
LIMITED_TASK_SECONDS = 0.005
LOAD_PER_SECOND, LONE_PER_SECOND = 100, 4
KILLED_TASKS = 2000
START_TIMEOUT_SECONDS = 60
KILLED_TASK_SECONDS = 0.05
RECOVERY_TIMEOUT_SECONDS = 90
HELD_BACKLOG = 2000
HELD_WARM_UP_SECONDS = 2
ENDLESS = 10_000_000


@dataclass(frozen=True)
class Sizes:
    """How long and how much."""

    seconds: float = 6
    held_seconds: float = 60
    backlog: int = 100_000


@dataclass(frozen=True)
class Scenario:
    name: str
    run: Callable[[Stage, str, Sizes], Values]
    variant: Mapping[str, str]
    """The queue that stands for a library here, where it is not its plain one."""
    is_repeated: bool
    """Whether it runs in every round, and not in the first one only."""


def enqueue(stage: Stage, name: str, sizes: Sizes, *, size: int, calls: int) -> Values:
    with stage.fresh(name) as run:
        run.store.checkpoint()
        cpu = run.store.cpu_seconds()
        sent = run.call(Send(name, run.dsn, [0], ENDLESS, sizes.seconds, size, calls))
        used = run.store.cpu_seconds() - cpu
    return {"rate": sent["tasks"] / sent["seconds"], "server_us": used * 1e6 / sent["tasks"]}


def consume(stage: Stage, name: str, sizes: Sizes, *, mode: Mode) -> Values:
    with stage.fresh(name) as run:
        tasks = run.fill([0], sizes.backlog // (20 if mode == "single" else 1), seconds=sizes.seconds)
        with run.workers(mode) as workers:
            (worker,) = workers
            server, idle = run.store.cpu_seconds(), worker.cpu_seconds()
            worker.begin()
            run.wait_for_start()
            run.wait_until(lambda: run.log.count() >= tasks, sizes.seconds)
            done = run.log.count()
            used, server_used = worker.cpu_seconds() - idle, run.store.cpu_seconds() - server
            memory = worker.memory_bytes()
        events = run.log.events()[:done]
    return {
        "rate": rate(events),
        "worker_us": used * 1e6 / done,
        "server_us": server_used * 1e6 / done,
        "memory_mb": memory / 1e6,
    }


def lone(stage: Stage, name: str, sizes: Sizes) -> Values:
    """One tenant sends at a steady rate; the tasks of another one, which are few, are measured."""
    seconds = 2 * sizes.seconds
    load = SendPaced(name, "", [NOISY], round(seconds * LOAD_PER_SECOND), LOAD_PER_SECOND)
    few = SendPaced(name, "", [2], round(seconds * LONE_PER_SECOND), LONE_PER_SECOND)
    with stage.fresh(name) as run, run.workers("batches") as workers:
        (worker,) = workers
        with (
            run.child(SendPaced(name, run.dsn, load.tenants, load.tasks, load.per_second)) as loading,
            run.child(SendPaced(name, run.dsn, few.tenants, few.tasks, few.per_second)) as sending,
        ):
            loading.wait_until_ready()
            sending.wait_until_ready()
            worker.begin()
            loading.begin()
            run.wait_for_start()
            sending.begin()
            returned_at = numbered(sending.result())
            run.wait_until(lambda: served(run.log.events(), returned_at), QUIET_TIMEOUT_SECONDS)
        waits = waits_of(run.log.events(), returned_at)
    finite = [wait for wait in waits if wait < inf]
    return {
        "p50_ms": quantile(waits, 50) * 1000,
        "p99_ms": quantile(waits, 99) * 1000,
        "unserved": len(waits) - len(finite),
    }


def noisy(stage: Stage, name: str, sizes: Sizes) -> Values:
    """One tenant has a backlog, and 99 others send one task each while it is worked on."""
    with stage.fresh(name) as run:
        backlog = run.fill([NOISY], sizes.backlog, seconds=60)
        quiet = SendPaced(name, run.dsn, list(QUIET), len(QUIET), QUIET_PER_SECOND)
        with run.workers("batches", seconds=QUIET_TASK_SECONDS) as workers, run.child(quiet) as sending:
            sending.wait_until_ready()
            workers[0].begin()
            run.wait_for_start()
            sending.begin()
            returned_at = numbered(sending.result())
            run.wait_until(lambda: served(run.log.events(), returned_at), QUIET_TIMEOUT_SECONDS)
            events = run.log.events()
    waits = waits_of(events, returned_at)
    return {
        "backlog": backlog,
        "wait_s": statistics.median(waits),
        "worst_s": max(waits),
        "unserved": sum(wait == inf for wait in waits),
        "noisy_left": backlog
        - sum(tenant_of(event.number) == NOISY and not event.is_end for event in events),
    }


def limited(stage: Stage, name: str, sizes: Sizes) -> Values:
    """A hundred tenants and two workers: at most one task of each at a time, and the same without a limit."""
    plain = name.partition(",")[0]
    free, _ = one_of_each(stage, plain, sizes)
    kept, at_once = one_of_each(stage, name, sizes)
    if not free:
        raise NothingRan("fewer than two tasks ran without a limit")
    return {"rate": kept, "unlimited_rate": free, "ratio": kept / free, "at_once": at_once}


def one_of_each(stage: Stage, name: str, sizes: Sizes) -> tuple[float, int]:
    with stage.fresh(name) as run:
        tasks = run.fill(LIMITED_TENANTS, sizes.backlog // 2, seconds=sizes.seconds)
        with run.workers("batches", count=2, seconds=LIMITED_TASK_SECONDS) as workers:
            for worker in workers:
                worker.begin()
            run.wait_for_start()
            run.wait_until(lambda: run.log.count() >= 2 * tasks, sizes.seconds)
            events = run.log.events()
    return rate([event for event in events if not event.is_end]), most_at_once(events)


def held(stage: Stage, name: str, sizes: Sizes) -> Values:
    """A producer and a worker go on while another session holds a snapshot, as a backup does."""
    window = min(10.0, sizes.held_seconds / 3)
    with stage.fresh(name) as run, run.workers("batches") as workers:
        seconds = HELD_WARM_UP_SECONDS + window + sizes.held_seconds + 30
        sending = Send(name, run.dsn, [0], ENDLESS, seconds, 100, 1, run.log_path, HELD_BACKLOG)
        with run.child(sending) as producer:
            producer.wait_until_ready()
            workers[0].begin()
            producer.begin()
            run.wait_for_start()
            time.sleep(HELD_WARM_UP_SECONDS)
            before = counted(run.log.count, window, [*workers, producer])
            if not before:
                raise NothingRan(f"no task ran in the {window:g} s before the snapshot was held")
            with psycopg.connect(run.dsn) as conn:
                conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                conn.execute("SELECT COUNT(*) FROM pg_class")
                counted(run.log.count, sizes.held_seconds - window, [*workers, producer])
                after = counted(run.log.count, window, [*workers, producer])
            producer.kill()
    return {"rate_before": before, "rate_held": after, "ratio": after / before}


def killed(stage: Stage, name: str, _sizes: Sizes) -> Values:
    """Two workers, of which one is killed with all its processes while it runs tasks."""
    with stage.fresh(name) as run:
        run.fill([0], KILLED_TASKS)
        with run.workers("recovering", count=2, seconds=KILLED_TASK_SECONDS) as workers:
            victim = workers[0].pid
            for worker in workers:
                worker.begin()
            if not run.wait_until(
                lambda: len(workers_of(run.log.events())) == len(workers), START_TIMEOUT_SECONDS
            ):
                raise NothingRan("one of two workers ran no task")
            run.wait_until(lambda: bool(open_tasks(run.log.events(), victim)), START_TIMEOUT_SECONDS)
            workers[0].kill()
            killed_at = time.monotonic()
            interrupted = open_tasks(run.log.events(), victim)
            if not interrupted:
                raise NothingRan("the worker was running no task when it was killed")
            run.wait_until(lambda: interrupted <= set(ended(run.log.events())), RECOVERY_TIMEOUT_SECONDS)
        events = run.log.events()
    again = restarts(events, interrupted, victim)
    ends = ended(events)
    return {
        "interrupted": len(interrupted),
        "recovery_s": max((again.get(number, inf) - killed_at for number in interrupted), default=inf),
        "lost": len(interrupted - set(ends)),
        "doubled": sum(times > 1 for times in ends.values()),
    }


def workers_of(events: Iterable[TaskEvent]) -> set[int]:
    return {event.worker for event in events}


def open_tasks(events: Iterable[TaskEvent], worker: int) -> set[int]:
    """What this worker has started and not ended."""
    own = [event for event in events if event.worker == worker]
    return {event.number for event in own} - {event.number for event in own if event.is_end}


def restarts(events: Iterable[TaskEvent], numbers: set[int], worker: int) -> dict[int, float]:
    """When each of the tasks was first started by another worker than this one."""
    first: dict[int, float] = {}
    for event in events:
        if event.number in numbers and event.worker != worker and not event.is_end:
            first.setdefault(event.number, event.at)
    return first


def rate(events: list[TaskEvent]) -> float:
    """Tasks per second, from the first to the last start."""
    times = [event.at for event in events]
    if len(times) < 2 or max(times) == min(times):
        return 0.0
    return (len(times) - 1) / (max(times) - min(times))


def counted(count: Callable[[], int], seconds: float, children: Iterable[Child]) -> float:
    """Tasks per second in the next seconds, while the children run."""
    before, start = count(), time.monotonic()
    time.sleep(seconds)
    for child in children:
        child.check_is_running()
    return (count() - before) / (time.monotonic() - start)


def ended(events: Iterable[TaskEvent]) -> Counter[int]:
    return Counter(event.number for event in events if event.is_end)


def most_at_once(events: Iterable[TaskEvent]) -> int:
    """The most tasks that any tenant had running at the same time."""
    running: defaultdict[int, int] = defaultdict(int)
    most = 0
    for event in sorted(events, key=lambda event: (event.at, not event.is_end)):
        tenant = tenant_of(event.number)
        running[tenant] += -1 if event.is_end else 1
        most = max(most, running[tenant])
    return most


def numbered(returned_at: Mapping[str, float]) -> dict[int, float]:
    return {int(number): at for number, at in returned_at.items()}


def served(events: Iterable[TaskEvent], returned_at: Mapping[int, float]) -> bool:
    return set(returned_at) <= {event.number for event in events}


def waits_of(events: Iterable[TaskEvent], returned_at: Mapping[int, float]) -> list[float]:
    """Seconds from the return of each call until its task started; infinite if it has not."""
    started: dict[int, float] = {}
    for event in events:
        started.setdefault(event.number, event.at)
    return [max(0.0, started.get(number, inf) - at) for number, at in returned_at.items()]


def quantile(values: Iterable[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def all_scenarios() -> tuple[Scenario, ...]:
    plain: dict[str, str] = {}
    groups = {"pgmq": "pgmq, grouped"}
    limits = {name: f"{name}, limited" for name in ("lonnymq", "pgqueuer", "procrastinate")} | groups
    return (
        Scenario("enqueue-1", lambda *all_: enqueue(*all_, size=1, calls=10), plain, is_repeated=True),
        Scenario("enqueue-1000", lambda *all_: enqueue(*all_, size=1000, calls=1), plain, is_repeated=True),
        Scenario("consume-1", lambda *all_: consume(*all_, mode="single"), plain, is_repeated=True),
        Scenario("consume-many", lambda *all_: consume(*all_, mode="batches"), plain, is_repeated=True),
        Scenario("lone", lone, plain, is_repeated=True),
        Scenario("noisy", noisy, groups, is_repeated=False),
        Scenario("limit", limited, limits, is_repeated=False),
        Scenario("killed", killed, plain, is_repeated=False),
        Scenario("snapshot", held, plain, is_repeated=False),
    )
