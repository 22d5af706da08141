"""What ./run model checks: model/checks.toml and model/mutations.toml."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.environment import CHECKOUT

FOLDER = CHECKOUT / "model"
# TLC takes model values, such as {s1, s2}, in its configuration only. Everything else may be an expression.
MODEL_VALUES = ("Sessions", "LeftOpen")
DISTURBANCES = ("rollback", "crash", "cancel", "reschedule", "extend", "release", "fail", "revive")


class ModelError(Exception):
    """A file in model/ is wrong."""


@dataclass(frozen=True)
class Check:
    name: str
    about: str
    module: str
    specification: str
    rules: tuple[str, ...]  # invariants
    properties: tuple[str, ...]  # of whole behaviours
    constants: dict[str, str]
    is_symmetric: bool


@dataclass(frozen=True)
class Mutation:
    name: str
    about: str
    right: str
    wrong: str
    refutes: str  # the rule or property that must fail
    check: Check
    like: str  # the seeded bug, or the rule of the design, that it repeats

    def text(self, module: str) -> str:
        """The module with the bug. The right text must be there exactly once."""
        found = module.count(self.right)
        if found != 1:
            raise ModelError(
                f"mutation {self.name!r}: {self.check.module}.tla has the text {self.right!r} {found} times, "
                "not once: adapt model/mutations.toml"
            )
        return module.replace(self.right, self.wrong)


def read_checks(size: str, folder: Path = FOLDER) -> dict[str, Check]:
    rows = _check_rows(folder)
    return {name: _check(name, row, size) for name, row in rows.items() if size in row["sizes"]}


def read_mutations(folder: Path = FOLDER) -> dict[str, Mutation]:
    rows = _check_rows(folder)
    mutations = {}
    for name, row in _read(folder / "mutations.toml").items():
        base = rows.get(row["check"])
        if base is None:
            raise ModelError(f"mutation {name!r}: model/checks.toml has no check {row['check']!r}")
        rule = row["refutes"]
        if rule not in (*base["rules"], *base["properties"]):
            raise ModelError(f"mutation {name!r}: check {row['check']!r} has no rule {rule!r}")
        only = {
            "rules": [rule] if rule in base["rules"] else [],
            "properties": [rule] if rule in base["properties"] else [],
            "constants": base["constants"] | row.get("constants", {}),
            "budget": base["budget"] | row.get("budget", {}),
        }
        check = _check(row["check"], base | only, "small")
        mutations[name] = Mutation(
            name, row["about"], row["right"], row["wrong"], rule, check, row.get("like", "")
        )
    return mutations


def _check_rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The tables of checks.toml, each with the values of its base."""
    found = _read(folder / "checks.toml")
    rows = {}
    for name, row in found.items():
        base = found[row["base"]] if "base" in row else {}
        rows[name] = {
            "specification": "Spec",
            "sizes": ["small", "large"],
            "properties": [],
            "budget": {},
            **{key: value for key, value in base.items() if key != "sizes"},
            **row,
            "constants": base.get("constants", {}) | row.get("constants", {}),
        }
    return rows


def _check(name: str, row: dict[str, Any], size: str) -> Check:
    of_size = row.get(size, {})
    constants = row["constants"] | {key: value for key, value in of_size.items() if key != "budget"}
    if row["module"] == "dispatcher":
        budget = dict.fromkeys(DISTURBANCES, 0) | row["budget"] | of_size.get("budget", {})
        constants["Budget"] = f"[{', '.join(f'{what} |-> {n}' for what, n in budget.items())}]"
    return Check(
        name,
        row["about"],
        row["module"],
        row["specification"],
        tuple(row["rules"]),
        tuple(row["properties"]),
        constants,
        # TLC must not identify states by symmetry when it checks properties of whole behaviours, and refuses
        # a symmetry of one session.
        is_symmetric="," in constants.get("Sessions", "") and not row["properties"],
    )


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ModelError(f"could not read {path}: {error}") from error
