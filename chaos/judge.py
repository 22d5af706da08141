"""Verdicts from the evidence. Pure: the same journals always give the same verdicts."""

from chaos.case import Case, Limits, Verdict
from chaos.evidence import Evidence, FinalState
from chaos.rules import leases, limits, messages, order, waits
from chaos.world import World

RULES = (*messages.RULES, *leases.RULES, *limits.RULES, *order.RULES, *waits.RULES)


def judge(evidence: Evidence, final: FinalState, world: World, bounds: Limits | None = None) -> list[Verdict]:
    case = Case(evidence, final, world, bounds or Limits())
    return [rule(case) for rule in RULES]
