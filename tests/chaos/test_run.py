"""./run chaos: real processes and a real server under faults, and broken engines that it must refute."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.broken_engines import BROKEN
from chaos.faults import FAULTS
from chaos.plan import make_plan
from dev.environment import CHECKOUT

CHEAP = (
    "worker-kill,worker-stop,producer-kill,cut,cuts,half-open,server-kill,terminated-sessions,cancelled-calls,"
    "open-transactions,prepared-transactions,policy-changes"
)
SMALL = ("--consumers", "3", "--producers", "1")
ALWAYS_JUDGED = {"1", "2", "3", "4", "5", "6", "7", "9", "10", "11", "13", "14", "15"}


def chaos(*arguments: str, timeout: int) -> tuple[int, dict[str, Any], str]:
    command = [sys.executable, "-m", "chaos", "--json", *arguments]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=timeout)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def judged(result: dict[str, Any]) -> set[str]:
    return {verdict["rule"] for verdict in result["verdicts"] if verdict["judged"]}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_20_000_messages(tmp_path: Path) -> None:
    page = tmp_path / "chaos.html"
    code, result, errors = chaos(
        "--messages", "20000", "--minutes", "0.6", "--seed", "1", "--only", CHEAP, "--report", str(page),
        "--wait", "60", *SMALL, timeout=580,
    )  # fmt: skip
    assert code == 0, errors
    assert judged(result) >= ALWAYS_JUDGED
    assert result["counts"]["messages committed"] >= 20_000
    assert set(CHEAP.split(",")) <= set(result["faults"])
    text = page.read_text(encoding="utf-8")
    assert f"{result['counts']['messages committed']:,}" in text
    assert "://" not in text, "it loads nothing"
    command = f"--minutes 0.6 --seed 1 --only {CHEAP} --producers 1 --consumers 3 --wait 60</code>"
    assert command in text, "it says how to run the same plan"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "engine",
    [pytest.param(e, marks=[] if e == "limit-ignored" else pytest.mark.long) for e in sorted(BROKEN)],
)
def test_a_broken_engine_is_refuted(engine: str) -> None:
    """A small run may end before the defect shows, so it is repeated."""
    is_small = engine == "limit-ignored"
    size = ("--messages", "3000", "--minutes", "0.15") if is_small else ()
    for seed in "12345" if is_small else "1":
        code, result, errors = chaos(
            "--engine", engine, "--wait", "15", "--seed", seed, *size, *SMALL, timeout=580
        )
        if code == 0:
            break
    assert code == 0, errors
    assert {v["rule"] for v in result["verdicts"] if not v["holds"]} & set(BROKEN[engine].refuted_by)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_fault() -> None:
    code, result, errors = chaos(
        "--messages", "50000", "--minutes", "5", "--spark", "--wait", "60", timeout=1700
    )
    assert code == 0, errors
    assert set(result["faults"]) | set(result["skipped"]) >= set(FAULTS)


def test_a_seed_makes_the_same_plan() -> None:
    plan = make_plan("7", 1_000_000, 1500, FAULTS)
    assert plan == make_plan("7", 1_000_000, 1500, FAULTS)
    assert plan != make_plan("8", 1_000_000, 1500, FAULTS)
    assert plan.count("worker-kill") == 200
    assert plan.count("server-kill") == 50
    assert {planned.fault for planned in plan.faults} == set(FAULTS)
    for track in plan.tracks.values():
        assert [planned.at_s for planned in track] == sorted(planned.at_s for planned in track)


def test_a_small_plan_has_each_fault_once() -> None:
    plan = make_plan("7", 100, 10, FAULTS)
    assert all(plan.count(name) == 1 for name in FAULTS)
    assert all(0 < planned.at_s < 10 for planned in plan.faults)


def test_a_fault_that_does_not_exist_is_refused() -> None:
    code, _, errors = chaos("--only", "earthquake", timeout=60)
    assert code == 2
    assert "there is no fault 'earthquake'; see --list" in errors
