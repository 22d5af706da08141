"""A queue lives thirty calls, chosen by chance, and the model says after each what it must have come to."""

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.database import Connect
from tests.model.machine import Bench
from tests.model.operators import OperatedQueueMachine

PARTS = 4  # so that several processes share the work
LONG_PARTS = 12
STEPS = 30


@pytest.fixture
def bench(connect: Connect) -> Bench:
    return Bench(connect)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "part",
    [
        0,
        *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS)),
        *(pytest.param(part, marks=pytest.mark.long) for part in range(PARTS, LONG_PARTS)),
    ],
)
def test_a_life_of_the_queue_is_as_the_model_says(
    bench: Bench, part: int, model_seed: int, model_examples: int
) -> None:
    examples = -(-model_examples // PARTS)

    @seed(model_seed + part)
    def machine() -> OperatedQueueMachine:
        return OperatedQueueMachine(bench)

    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)  # type: ignore[arg-type]
    except BaseException as error:
        error.add_note(f"to repeat it: --model-seed {model_seed} --model-examples {examples * PARTS}")
        raise
    assert bench.drained >= examples // 2
