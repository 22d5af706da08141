"""The model of the dispatcher: its rules hold, its mutations are refuted, and docs/model.md describes it."""

import re
from pathlib import Path

import pytest

from dev.model import __main__ as command
from dev.model import tlc
from dev.model.description import ModelError, read_checks, read_mutations
from tests.examples.page import CHECKOUT

CHECKS = read_checks("small")
MUTATIONS = read_mutations()
# Less than half a minute of CPU time in total. The others take up to half a minute each.
BY_DEFAULT = (
    *("notices", "quick", "cancels", "reschedules", "tokens", "dequeues_of_two", "crashes", "times"),
    *("served_limit", "served_withdrawn", "served_crash"),
    *("id cursor instead of snapshot", "lost rollback", "a rollback that nobody notices"),
)
PAGE = CHECKOUT / "docs" / "model.md"
ACTION = re.compile(r"^(\w+)(?:\([^)]*\))? ==((?:\n|.)*?)(?=^\S)", re.MULTILINE)


def by_default(names: list[str]) -> list[object]:
    return [name if name in BY_DEFAULT else pytest.param(name, marks=pytest.mark.long) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("name", by_default([*CHECKS]))
def test_rules_hold(name: str) -> None:
    found = tlc.run(CHECKS[name], is_short=name in BY_DEFAULT)
    assert found.violated == "", found.output
    assert (found.states, found.depth) == numbers_on_the_page()[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", by_default([*MUTATIONS]))
def test_mutations_are_refuted(name: str) -> None:
    mutation = MUTATIONS[name]
    found = tlc.run(mutation.check, mutation.text(tlc.module_text(mutation.check.module)), is_short=True)
    assert found.violated == mutation.refutes, found.output
    assert found.steps > 1


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations_change_the_module(name: str) -> None:
    mutation = MUTATIONS[name]
    text = tlc.module_text(mutation.check.module)
    assert mutation.text(text) != text


def test_a_mutation_whose_text_is_gone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ModelError, match=r"adapt model/mutations\.toml"):
        MUTATIONS["lost rollback"].text("---- MODULE dispatcher ----")
    assert command.main(["--mutation", "lost wakeup"]) == 1
    assert "there is no mutation 'lost wakeup'" in capsys.readouterr().err


def test_the_page_has_every_action_and_mutation() -> None:
    rows = {cells[0]: cells for cells in table_rows()}
    for module in ("notices", "dispatcher"):
        for name, body in ACTION.findall(tlc.module_text(module)):
            if "UNCHANGED" in body:
                assert f"`{name}`" in rows, f"docs/model.md has no row for the action {name} of {module}.tla"
    assert {name for name in rows if not name.startswith("`")} >= {*MUTATIONS, *CHECKS}


def test_the_page_names_functions_that_exist() -> None:
    functions = {path.stem for path in (CHECKOUT / "src" / "lonnymq" / "sql" / "functions").glob("*/*.sql")}
    named = {
        name
        for cells in table_rows()
        if cells[0].startswith("`")
        for name in re.findall(r"`(\w+)`", cells[1])
    }
    assert len(named) > 20
    assert named - functions == set()


def test_the_page_names_rules_that_exist() -> None:
    modules = "".join(path.read_text(encoding="utf-8") for path in Path(CHECKOUT / "model").glob("*.tla"))
    checked = {rule for check in CHECKS.values() for rule in (*check.rules, *check.properties)}
    named = set(re.findall(r"\| `([A-Z]\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert named == checked
    assert all(f"\n{rule} ==" in modules for rule in checked)


def table_rows() -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| ")
    ]


def numbers_on_the_page() -> dict[str, tuple[int, int]]:
    """The states and the depth of each check in the small size."""
    return {
        cells[0]: (int(cells[2].replace(",", "")), int(cells[3]))
        for cells in table_rows()
        if cells[0] in CHECKS
    }
