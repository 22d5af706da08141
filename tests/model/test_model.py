"""A queue gets thirty random calls, and after each the model says what the result must be."""

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.database import Connect
from tests.model.machine import SharedDatabase
from tests.model.operators import OperatorQueueMachine

PARTS = 4  # so that several processes share the work
LONG_PARTS = 12
STEPS = 30


@pytest.fixture
def database(connect: Connect) -> SharedDatabase:
    return SharedDatabase(connect)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "part",
    [
        0,
        *(pytest.param(part, marks=pytest.mark.long) for part in range(1, LONG_PARTS)),
    ],
)
def test_random_calls_do_what_the_model_says(
    database: SharedDatabase, part: int, model_seed: int, model_examples: int
) -> None:
    examples = -(-model_examples // PARTS)

    @seed(model_seed + part)
    def machine() -> OperatorQueueMachine:
        return OperatorQueueMachine(database)

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
    assert database.drained >= examples // 2
