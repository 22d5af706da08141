"""One run: start the server and the clients, let the plan happen, drain, and judge."""

import json
import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from chaos.broken_engines import BROKEN, break_engine
from chaos.case import Limits, Verdict
from chaos.client import Settings
from chaos.cluster import DATABASE, Clock, Cluster, work_folder
from chaos.crew import PRODUCERS, Crew
from chaos.evidence import Evidence, FinalState, from_folder
from chaos.faults import FAULTS, Scene
from chaos.journal import Journal, now_ms, wall_ms
from chaos.judge import judge
from chaos.options import Options
from chaos.plan import CALM, CALM_S, Plan, Planned, make_plan
from chaos.tally import Tally
from chaos.task_worker import EFFECTS
from chaos.world import World, key_of, make_world
from lonnymq.formatting import plural
from lonnymq.install import install

LEASE_MS = (2500, 5000)  # in runs of up to two minutes, and in longer ones
LONG_S = 120
START_TIMEOUT_S = 120
PRODUCING, CONSUMING = 0.6, 0.8  # parts of the time within which all messages are created, and served
DISK_BYTES = 6 << 30
BATCHES = ((100_000, 50), (10**12, 100))  # up to so many messages, calls have up to so many
STORED = "SELECT content FROM message"
CASE = "case.json"
DEAD = "SELECT content, attempts FROM dead"

Tell = Callable[[str], object]


@dataclass
class Result:
    """What a run has found. `skipped` says which faults the machine does not allow."""

    options: Options
    plan: Plan
    verdicts: list[Verdict]
    evidence: Evidence
    counts: dict[str, int]
    seconds: dict[str, float]
    skipped: dict[str, str]
    server: str
    failures: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return all(verdict.holds for verdict in self.verdicts) and not self.failures

    @property
    def refuted(self) -> list[str]:
        return [verdict.rule for verdict in self.verdicts if not verdict.holds]


class Run:
    def __init__(self, options: Options, tell: Tell) -> None:
        self.options = options
        self.tell = tell
        self.started = time.monotonic()
        self.folder = work_folder()
        self.journals = self.folder / "journals"
        self.journals.mkdir()
        self.skipped: dict[str, str] = {}
        self.failures: list[str] = []
        self.done = 0
        self._stopping = threading.Event()
        self._seconds: dict[str, float] = {}
        self.world = world_of(options.messages, options.seconds, with_spark=options.spark)
        self._tracks: dict[str, threading.Lock] = {}
        self.tally = Tally(self.journals)

    def run(self) -> Result:
        faults = self._possible_faults()
        plan = make_plan(
            self.options.seed, self.options.messages, self.options.seconds, faults, times=self._times
        )
        with_clock = any(FAULTS[name].needs == "libfaketime" for name in faults)
        with_disk = any(FAULTS[name].needs == "tmpfs" for name in faults)
        try:
            cluster = Cluster(
                self.folder, self.options.postgresql, size_bytes=DISK_BYTES * with_disk, with_clock=with_clock
            )
            try:
                return self._run_on(cluster, plan)
            except BaseException as error:
                for failure in self.failures:  # of faults, which may be the reason
                    error.add_note(failure)
                raise
            finally:
                cluster.close()
        finally:
            try:
                if self.options.folder is not None:
                    shutil.copytree(self.journals, self.options.folder)
            finally:
                shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _times(self) -> int:
        return BROKEN[self.options.engine].times if self.options.engine else 1

    def _possible_faults(self) -> set[str]:
        """Leave out, and say so, what this machine does not allow."""
        faults = self.options.faults
        for name in sorted(faults):
            if FAULTS[name].needs == "libfaketime" and not Clock.is_available():
                self.skipped[name] = "needs the Debian package libfaketime"
            if FAULTS[name].needs == "tmpfs" and not _may_mount():
                self.skipped[name] = "needs root, to mount a small file system"
        return faults - set(self.skipped)

    def _run_on(self, cluster: Cluster, plan: Plan) -> Result:
        server = self._prepare(cluster)
        crew = Crew(self._settings(cluster, plan), random.Random(f"{self.options.seed}/crew"))
        try:
            self._start(crew)
            self._await_work(crew)
            with self._timed("faults"):
                self._let_happen(cluster, crew, plan)
            with self._timed("drain"):
                self._drain(cluster, crew)
        finally:
            crew.stop()
        self.failures += crew.crashed
        final = _final_state(cluster)
        write_case(self.journals, final, self.options)
        with self._timed("judge"):
            evidence, verdicts = judged(self.journals, self.world, self.options.wait_s)
        self._seconds["all"] = time.monotonic() - self.started
        return Result(
            self.options, plan, verdicts, evidence, counts(evidence, final), self._seconds,
            self.skipped, server, self.failures,
        )  # fmt: skip

    def _prepare(self, cluster: Cluster) -> str:
        """Create the database with the queue and the channels. Returns the server's version."""
        with cluster.connect("postgres") as conn:
            conn.execute(f"CREATE DATABASE {DATABASE}".encode())
        with cluster.connect() as conn:
            install(conn, "lonnymq")
            conn.execute("SET search_path TO lonnymq")
            conn.execute(EFFECTS.replace("chaos_effect", "public.chaos_effect").encode())
            if self.options.engine:
                break_engine(conn, self.options.engine)
            for channel in self.world.channels:
                conn.execute(
                    "SELECT FROM channel_set(%s, %s::int, %s::bigint, %s::int, FALSE, %s::int, %s::numeric)",
                    (
                        channel.name, channel.max_concurrency, channel.interval_us, channel.burst,
                        channel.max_size, channel.weight,
                    ),
                )  # fmt: skip
            return str(conn.info.parameter_status("server_version"))

    def _settings(self, cluster: Cluster, plan: Plan) -> Settings:
        return Settings(
            name="",
            seed=self.options.seed,
            dsn=cluster.dsn_for_clients(),
            folder=str(self.journals),
            messages=self.options.messages,
            seconds=self.options.seconds,
            lease_ms=self.world.lease_ms,
            with_spark=self.options.spark,
            notes_lsn=any("failover" in name for name in {p.fault for p in plan.faults}),
            batch=next(size for most, size in BATCHES if self.options.messages <= most),
        )

    def _start(self, crew: Crew) -> None:
        options = self.options
        for _ in range(options.producers):
            rate = options.messages / (options.seconds * PRODUCING * options.producers)
            crew.start("producer", quota=-(-options.messages // options.producers), per_second=rate)
        for _ in range(options.consumers):
            crew.start(
                "consumer", per_second=options.messages / (options.seconds * CONSUMING * options.consumers)
            )
        for _ in range(options.workers):
            crew.start("task_worker")
        if options.spark:
            crew.start("spark_stream")
            crew.start("spark_sink", quota=options.messages // 50)

    def _await_work(self, crew: Crew) -> None:
        """Programs take seconds to start on a busy machine. The plan begins when messages are served."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.tally.delivered:
            if time.monotonic() > deadline:
                states = {m.settings.name: m.process.poll() for m in crew.members}
                raise TimeoutError(f"nothing was delivered within {START_TIMEOUT_S} s; exit codes: {states}")
            time.sleep(0.1)
            self.tally.update()

    def _let_happen(self, cluster: Cluster, crew: Crew, plan: Plan) -> None:
        """Run the tracks of the plan beside each other until they are over and all messages are created."""
        began = time.monotonic()
        scenes = {name: self._scene(cluster, crew, name) for name in (*plan.tracks, CALM)}
        self._tracks = {name: threading.Lock() for name in plan.tracks}
        with ThreadPoolExecutor(len(scenes)) as pool:
            running = [
                pool.submit(self._track, scenes[name], track, began) for name, track in plan.tracks.items()
            ]
            running.append(pool.submit(self._calm, scenes[CALM], plan.calm, began))
            try:
                while not all(track.done() for track in running) or crew.is_producing():
                    crew.replace_dead()
                    self._show(plan)
                    if self._stopping.wait(1):
                        break
            except BaseException:
                self._stopping.set()
                raise
            for track in running:
                track.result()
        if self.failures:
            crew.stop(*PRODUCERS)
        self._lift_limits(scenes[CALM])

    def _scene(self, cluster: Cluster, crew: Crew, track: str) -> Scene:
        journal = Journal(self.journals / f"faults-{track}.jsonl", f"faults {track}")
        return Scene(self.folder, self.world, cluster, crew, journal, random.Random())

    def _track(self, scene: Scene, planned: list[Planned], began: float) -> None:
        lock = self._tracks[FAULTS[planned[0].fault].track]
        for each in planned:
            if self._stopping.wait(max(0.0, began + each.at_s - time.monotonic())):
                return
            with lock:
                self._happen(scene, each)
            self.done += 1

    def _happen(self, scene: Scene, planned: Planned) -> None:
        scene.random = random.Random(planned.seed)
        scene.facts = {}
        begin = now_ms()
        try:
            FAULTS[planned.fault].run(scene)
        except psycopg.OperationalError as error:
            # Another track's fault ended the operator's session, too.
            scene.facts["ended"] = (str(error).splitlines() or [type(error).__name__])[0]
        except Exception as error:  # noqa: BLE001 the judge still reads what was noted until here
            self.failures.append(f"{planned.fault}: {type(error).__name__}: {error}")
            self._stopping.set()
        finally:
            scene.journal.write(
                {"fault": planned.fault, "begin": begin, "end": now_ms(), "began": wall_ms()} | scene.facts
            )

    def _calm(self, scene: Scene, planned: list[Planned], began: float) -> None:
        """Times in which no fault begins or lasts."""
        for each in planned:
            if self._stopping.wait(max(0.0, began + each.at_s - time.monotonic())):
                return
            with ExitStack() as stack:
                for name in sorted(self._tracks):
                    stack.enter_context(self._tracks[name])
                scene.wait(1.0)  # what the last fault did passes
                begin = now_ms()
                scene.wait(CALM_S)
                scene.journal.write({"fault": CALM, "begin": begin, "end": now_ms()})

    def _lift_limits(self, scene: Scene) -> None:
        """So that what is left is served soon, also if a fault ended early and left a channel paused."""
        with scene.cluster.connect() as conn:
            for i, channel in enumerate(self.world.channels):
                if channel.family in {"changed", "limited", "rated"}:
                    call = scene.journal.before("policy", channel=i, paused=False, max_concurrency=0)
                    conn.execute("SELECT FROM channel_set(%s, 0, 0, p_paused => FALSE)", (channel.name,))
                    scene.journal.after(call, "ok")

    def _drain(self, cluster: Cluster, crew: Crew) -> None:
        """Serve what is left. Without progress for a while, give up: the judge sees what is still stored."""
        crew.drain()
        last, since = -1, time.monotonic()
        with cluster.connect() as conn:
            while True:
                crew.replace_dead()
                row = conn.execute("SELECT COUNT(*) FROM message").fetchone()
                left = 0 if row is None else row[0]
                self.tell(f"draining: {left:,} messages left")
                if left == 0:
                    return
                if left != last:
                    last, since = left, time.monotonic()
                elif time.monotonic() - since > self.options.wait_s:
                    return
                time.sleep(0.5)

    def _show(self, plan: Plan) -> None:
        self.tally.update()
        planned = len(plan.faults)
        self.tell(
            f"{time.monotonic() - self.started:5.0f} s  {self.tally.created:,} created"
            f"  {self.tally.delivered:,} delivered  {self.done}/{planned} faults"
        )

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self._seconds[what] = time.monotonic() - began


def world_of(messages: int, seconds: float, *, with_spark: bool) -> World:
    return make_world(messages, seconds, LEASE_MS[seconds > LONG_S], with_spark=with_spark)


def _may_mount() -> bool:
    return os.geteuid() == 0 and shutil.which("mount") is not None


def _final_state(cluster: Cluster) -> FinalState:
    with cluster.connect() as conn:
        return FinalState(
            [_key(row[0]) for row in conn.execute(STORED)],
            [(_key(row[0]), row[1]) for row in conn.execute(DEAD)],
            [row[0] for row in conn.execute("SELECT key FROM public.chaos_effect")],
        )


def _key(content: bytes) -> int:
    key = key_of(content)
    return -1 if key is None else key


def write_case(folder: Path, final: FinalState, options: Options) -> None:
    """Keep, beside the journals, what else the judge needs."""
    case = {"messages": options.messages, "seconds": options.seconds, "final": asdict(final)}
    (folder / CASE).write_text(json.dumps(case), encoding="utf-8")


def judged(folder: Path, world: World, wait_s: float) -> tuple[Evidence, list[Verdict]]:
    """Judge the journals of a run."""
    final = FinalState(**json.loads((folder / CASE).read_text(encoding="utf-8"))["final"])
    evidence = from_folder(folder)
    for fault in evidence.of("dump-and-restore"):
        for what in ("stored", "served"):
            if what in fault:
                fault[f"{what}_keys"] = np.load(folder / fault[what])
    return evidence, judge(evidence, final, world, Limits(wait_ms=wait_s * 1000))


def counts(evidence: Evidence, final: FinalState) -> dict[str, int]:
    """Numbers for the report, from the journals."""
    c, d, f = evidence.creates, evidence.deliveries, evidence.finishes
    made = c.where((c.outcome == 1) & np.isin(c.result, (1, 2)))  # a duplicate of a create without an answer
    return {
        "messages committed": len(np.unique(made.key)),
        "messages rolled back": len(np.unique(c.key[c.outcome == 3])),
        "creates without an answer": int((c.outcome == 2).sum()),
        "deliveries": len(d),
        "deliveries rolled back": int((d.outcome == 3).sum()),
        "messages delivered more than once": int((np.unique(d.key, return_counts=True)[1] > 1).sum()),
        "completions": int(((f.outcome == 1) & (f.kind == 0) & (f.result == 4)).sum()),
        "endings without an answer": int((f.outcome == 2).sum()),
        "endings refused": int(((f.outcome == 1) & np.isin(f.result, (8, 9))).sum()),
        "dead letters": len(final.dead),
        "calls to create, dequeue or complete": len(evidence.calls),
        "records": evidence.records,
    }


def summary(result: Result) -> str:
    """The outcome in one line."""
    judged = sum(verdict.judged > 0 for verdict in result.verdicts)
    parts = [f"{len(result.refuted)} of {judged} statements broken" if result.refuted else ""]
    parts += [f"the run itself failed, {plural(len(result.failures), 'time')}" if result.failures else ""]
    shown = "; ".join(filter(None, parts)) or f"all {judged} statements that were judged hold"
    idle = len(result.verdicts) - judged
    return f"{shown}; {idle} had no case to judge" if idle else shown


def as_json(result: Result) -> str:
    verdicts: list[dict[str, Any]] = [
        {
            "rule": v.rule, "title": v.title, "holds": v.holds, "judged": v.judged, "broken": v.broken,
            "examples": v.examples, "note": v.note,
        }
        for v in result.verdicts
    ]  # fmt: skip
    return json.dumps(
        {
            "holds": result.holds,
            "seed": result.options.seed,
            "engine": result.options.engine,
            "verdicts": verdicts,
            "failures": result.failures,
            "counts": result.counts,
            "faults": fault_counts(result),
            "skipped": result.skipped,
            "errors": error_counts(result),
            "seconds": {name: round(value, 1) for name, value in result.seconds.items()},
            "server": result.server,
        },
        indent=1,
    )


def error_counts(result: Result) -> dict[str, int]:
    return dict(sorted(Counter(state for state, _, _ in result.evidence.errors).items()))


def fault_counts(result: Result) -> dict[str, int]:
    found: dict[str, int] = {}
    for fault in result.evidence.faults:
        found[fault["fault"]] = found.get(fault["fault"], 0) + 1
    return found
