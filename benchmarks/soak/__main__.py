"""./run soak: mixed traffic for a long time, and whether sizes, memory, buffers and latencies stay flat.

A producer creates messages of all kinds: scheduled ones, and ones with priorities, dedupe keys and lanes. Two
worker processes run them. Some fail, are retried or become dead letters, while policies change and batches
finish. The queue keeps its history. Statistics are read every few seconds. The exit code is 1 if a series
grows or the run was stopped, and 2 if there are too few samples to judge. Many series grow in the first ten
minutes, so judge runs of half an hour or more.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import psycopg

from benchmarks.bench_server import VERSION
from benchmarks.soak import flatness, soak_report
from benchmarks.soak.soak_samples import (
    Buffers,
    Sample,
    backend_megabytes,
    history_per_message,
    latencies,
    oldest_snapshot,
    private_megabytes,
    sizes,
)
from dev.arguments import above_zero, writable_file
from dev.progress import Steps
from lonnymq import Queue
from lonnymq.embedded import Server, binaries

CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = {"shared_buffers": "256MB", "shared_preload_libraries": "pg_stat_statements"}
HISTORY_KEEP_SECONDS = 3600
START_TIMEOUT_SECONDS = 120
MINUTES_MAX, EVERY_MAX = 7 * 24 * 60, 3600
WARM_UP_MINUTES = 10
LOG_SHOWN = 2000  # characters of each log, if a process ends


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./run soak", description=__doc__)
    parser.add_argument(
        "--minutes", type=above_zero(MINUTES_MAX), default=30, help="how long the traffic runs (default: 30)"
    )
    parser.add_argument("--every", type=above_zero(EVERY_MAX), default=10, metavar="SECONDS",
                        help="seconds between samples (default: 10)")  # fmt: skip
    parser.add_argument(
        "--json", type=writable_file, metavar="FILE", help="write the samples and the trends here"
    )
    parser.add_argument("--report", type=writable_file, metavar="FILE", default="soak.html",
                        help="write the page with plots here (default: soak.html)")  # fmt: skip
    parser.add_argument("--picture", type=writable_file, metavar="FILE", help="also write the plots as SVG")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that children are stopped
    samples = Samples()
    stopped = False
    try:
        run(options.minutes * 60, options.every, samples)
    except KeyboardInterrupt:
        stopped = True  # what was sampled is judged
    except SoakFailed as error:
        stopped = True
        print(error, file=sys.stderr)
    trends = samples.trends()
    grew = [name for name, trend in trends.items() if not trend.is_flat]
    if options.json:
        options.json.write_text(json.dumps(samples.as_json(trends), indent=1), encoding="utf-8")
    soak_report.write(options.report, options.picture, samples.times, samples.series, trends)
    for name in grew:
        print(f"{name} grows: {trends[name].growth:+,.4g} at a level of {trends[name].level:,.4g}")
    if not trends:
        print("too few samples to judge; run for longer, or sample more often")
        return 2
    if grew and options.minutes < WARM_UP_MINUTES:
        print(f"the first {WARM_UP_MINUTES} minutes are warm-up, in which series grow: judge a longer run")
    print(f"{len(trends) - len(grew)} of {len(trends)} series are flat; the report is in {options.report}")
    return 1 if grew or stopped else 0


class Samples:
    """Series of numbers, each with the seconds since the start."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.series: dict[str, list[float]] = defaultdict(list)

    def add(self, at: float, sample: Sample) -> None:
        for name, value in sample.items():
            self.times[name].append(at)
            self.series[name].append(value)

    def trends(self) -> dict[str, flatness.Trend]:
        found = {
            name: flatness.trend(name, self.times[name], values)
            for name, values in self.series.items()
            if flatness.is_judged(name)
        }
        return {name: trend for name, trend in found.items() if trend is not None}

    def as_json(self, trends: dict[str, flatness.Trend]) -> dict[str, object]:
        return {
            "series": {
                name: {"seconds": self.times[name], "values": self.series[name]} for name in self.series
            },
            "trends": {name: vars(trend) for name, trend in trends.items()},
        }


class TimesReader:
    """Collects what the traffic prints."""

    def __init__(self, output: IO[str]) -> None:
        self._lock = threading.Lock()
        self._times: defaultdict[str, list[float]] = defaultdict(list)
        self._has_begun = threading.Event()
        threading.Thread(target=self._read, args=(output,), daemon=True).start()

    def wait_for_first(self) -> None:
        if not self._has_begun.wait(START_TIMEOUT_SECONDS):
            raise SoakFailed(f"the traffic did not begin within {START_TIMEOUT_SECONDS} s")

    def take(self) -> dict[str, list[float]]:
        with self._lock:
            taken, self._times = dict(self._times), defaultdict(list)
        return taken

    def _read(self, output: IO[str]) -> None:
        for line in output:
            with self._lock:
                for call, values in json.loads(line).items():
                    self._times[call].extend(values)
            self._has_begun.set()


def run(seconds: float, every: float, samples: Samples) -> None:
    steps = Steps(total=1)
    with tempfile.TemporaryDirectory(prefix="lonnymq-soak-") as folder, ExitStack() as stack:
        server = Server(Path(folder) / "server", bin_dir=binaries(VERSION), settings=SETTINGS)
        stack.callback(server.erase)
        stack.enter_context(server)
        dsn = server.dsn()
        queue = stack.enter_context(Queue(dsn))
        queue.install()
        queue.set(history=True, history_keep=HISTORY_KEEP_SECONDS, batch_keep=HISTORY_KEEP_SECONDS)
        conn = stack.enter_context(psycopg.connect(dsn, autocommit=True))
        conn.execute("CREATE EXTENSION pg_stat_statements")
        logs = [Path(folder) / f"{name}.log" for name in ("traffic", "worker 1", "worker 2")]
        traffic, *workers = (
            stack.enter_context(program("soak_worker" if number else "soak_traffic", dsn, log))
            for number, log in enumerate(logs)
        )
        assert traffic.stdout is not None
        times, buffers = TimesReader(traffic.stdout), Buffers()
        times.wait_for_first()
        begun = time.monotonic()
        steps.begin(f"soak for {seconds / 60:g} min")
        number = 0
        while (at := time.monotonic() - begun) < seconds:
            number += 1
            time.sleep(max(0.0, begun + number * every - time.monotonic()))
            for process in [*workers, traffic]:
                if process.poll() is not None:
                    last = "".join(log.read_text(encoding="utf-8")[-LOG_SHOWN:] for log in logs)
                    raise SoakFailed(f"{process.args!r} ended with {process.returncode}\n{last}")
            samples.add(time.monotonic() - begun, read(conn, queue, workers, times, buffers))
            steps.update(f"{at / 60:.1f} of {seconds / 60:g} min")
        steps.finish()


class SoakFailed(Exception):
    """A worker or the traffic ended."""


def read(
    conn: psycopg.Connection,
    queue: Queue,
    workers: "list[subprocess.Popen[str]]",
    times: TimesReader,
    buffers: Buffers,
) -> Sample:
    largest, all_backends = backend_megabytes(conn)
    stats = queue.stats()
    sample: Sample = {
        **dict(sizes(conn)),
        **dict(buffers.read(conn)),
        **dict(latencies(times.take())),
        "history per message, bytes": history_per_message(conn),
        "largest backend, MB": largest,
        "all backends, MB": all_backends,
        "oldest snapshot, s": oldest_snapshot(conn),
        "backlog": (stats.waiting or 0) + stats.leased,
        "dead letters": stats.dead,
    }
    for number, worker in enumerate(workers, start=1):
        sample[f"worker {number}, MB"] = private_megabytes(worker.pid)
    return sample


@contextmanager
def program(name: str, dsn: str, log: Path) -> "Iterator[subprocess.Popen[str]]":
    """`log` takes what the program logs: the tasks of a worker fail on purpose, several times per second."""
    command = [sys.executable, "-m", f"benchmarks.soak.{name}"]
    environment = os.environ | {"SOAK_DSN": dsn}
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
