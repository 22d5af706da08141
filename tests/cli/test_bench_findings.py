"""The sentences and tables of lonnymq bench."""

from dataclasses import replace
from typing import Any

import pytest

from lonnymq.cli.bench.findings import sentences
from lonnymq.cli.bench.output import heading, rates
from lonnymq.cli.bench.parameters import Parameters
from lonnymq.cli.bench.results import FairnessResult, Latency, Rate, Results, ServerInfo

SETTINGS = {
    "server_version": "18.6",
    "synchronous_commit": "on",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_standby_names": "",
    "shared_buffers": "128MB",
    "max_connections": "100",
}
FOUND = Results(
    schema="lonnymq_bench_00000000",
    server=ServerInfo("shop", "127.0.0.1", is_pooled=False, settings=SETTINGS),
    parameters=Parameters(),
    messages_written=5_000,
    seconds=20.0,
    round_trip_ms=0.1,
    commit_ms=2.1,
    latency=Latency(100, 3.0, 9.0),
    fairness=FairnessResult(30, 1_000, 2.0, 3, 900.0),
    rates=tuple(
        Rate(what, batch, rate * batch, (rate * batch,) * 3, 0.5, 600.0)
        for what, rate in (("enqueue", 400.0), ("consume", 200.0))
        for batch in (1, 50, 500)
    ),
)


def with_server(**keywords: Any) -> Results:
    return replace(FOUND, server=replace(FOUND.server, **keywords))


def with_rate(**keywords: Any) -> Results:
    *others, last = FOUND.rates
    return replace(FOUND, rates=(*others, replace(last, **keywords)))


def test_without_hints() -> None:
    commits, batches = sentences(FOUND)
    assert commits == (
        "A durable commit takes 2.1 ms, 0.1 ms of it for the round trip. A batch pays that once."
    )
    assert batches == (
        "With 500 messages per call, enqueue is 500 times as fast as with one, and consume 500 times."
    )


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit"])
def test_commits_that_do_not_wait_for_the_disk(setting: str) -> None:
    [commit, *_] = sentences(with_server(settings=SETTINGS | {setting: "off"}))
    assert f"does not wait for the disk, because {setting} is off" in commit
    assert "durable" not in commit


HINTS = [
    ("The round trip takes longer", replace(FOUND, round_trip_ms=5.0, commit_ms=9.0)),
    (
        "A pooler is in between",
        replace(with_server(is_pooled=True), latency=Latency(5, 500.0, 700.0)),
    ),
    ("the limit was Python and not the server", with_rate(client_cpu=0.93)),
    ("was 4.0 times as fast as the worst", with_rate(rounds=(100_000.0, 50_000.0, 25_000.0))),
]
NO_HINTS = [
    replace(FOUND, round_trip_ms=5.0, commit_ms=11.0),
    replace(FOUND, round_trip_ms=0.1, commit_ms=0.15),  # too close to gain anything
    with_server(is_pooled=True),
    replace(FOUND, latency=Latency(5, 500.0, 700.0)),
    with_rate(client_cpu=0.7),
    with_rate(rounds=(100_000.0, 80_000.0, 60_000.0)),
]


@pytest.mark.parametrize(("says", "found"), HINTS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_hint_for_what_was_measured(says: str, found: Results) -> None:
    [hint] = sentences(found)[2:]
    assert says in hint


@pytest.mark.parametrize("found", NO_HINTS, ids=range(len(NO_HINTS)))
def test_no_hint_for_what_was_not(found: Results) -> None:
    assert len(sentences(found)) == 2


def test_the_busiest_is_named() -> None:
    assert "(consume, 500 per call)" in sentences(with_rate(client_cpu=0.93))[2]


def test_settings_that_are_unusual_are_shown() -> None:
    assert heading(FOUND)[1] == ("synchronous_commit on, fsync on, shared_buffers 128MB, max_connections 100")
    unusual = SETTINGS | {"synchronous_standby_names": "two\n", "full_page_writes": "off"}
    assert heading(with_server(settings=unusual))[1].endswith(
        ", full_page_writes off, synchronous_standby_names two\\n"
    )
    assert heading(with_server(is_pooled=True))[0] == "PostgreSQL 18.6, database shop, through a pooler"


def test_bars_are_as_long_as_the_rates() -> None:
    bars = list(rates(FOUND, "#").columns[2].cells)
    assert [len(str(bar)) for bar in bars] == [1, 1, 14, 1, 1, 7]


PARAMETERS = [
    Parameters(),
    Parameters(clients=64),
    Parameters(payload_bytes=100_000),
    Parameters(clients=1, payload_bytes=0),
]


@pytest.mark.parametrize("parameters", PARAMETERS, ids=str)
def test_a_call_is_always_made_whole(parameters: Parameters) -> None:
    assert parameters.messages_per_turn(500) >= 500
    assert parameters.messages_per_turn(1) >= 1


def test_how_much_is_written_is_bounded() -> None:
    assert Parameters().max_messages < 210_000
    assert Parameters(payload_bytes=100_000).max_bytes < 1024**3
    assert Parameters(payload_bytes=10_000).max_messages < Parameters(payload_bytes=100).max_messages
