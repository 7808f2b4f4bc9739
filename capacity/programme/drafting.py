"""From counts of alike nodes to a plan with names, and the same plan with wider marks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from capacity.fit import new_host
from capacity.index.fleet import stock_of
from capacity.model import Node, Offering, Plan, Purchase, Use
from capacity.place import Placer, Unit, trim, units
from capacity.programme.couplings import Bind
from capacity.programme.judge import Judge
from capacity.programme.mixes import lucky_mixes
from capacity.programme.question import Question
from capacity.programme.roles import Role
from capacity.programme.solver import Column, Pattern, Solution
from capacity.programme.supply import Cell, Member
from capacity.topology import ways


def draft(
    asked: Question,
    columns: Mapping[Column, Sequence[Cell]],
    solution: Solution,
    chosen: Mapping[str, str],
    binds: Sequence[Bind],
) -> Plan:
    """The plan of a solution; `chosen` are the domains that were chosen one by one."""
    placer = Placer(asked.snapshot.topology_keys, usual=stock_of(asked.snapshot).fleet.usual())
    found: list[Unit] = []
    cells = list(columns.items())
    for index, group in groupby(solution.counts, key=lambda count: count[0]):
        column, members = cells[index][0], _members(cells[index][1])
        patterns = [(column.patterns[number], count) for _, number, count in group]
        found += units(placer.take(members, sum(count for _, count in patterns)), patterns)
    kept = trim(found, asked.demand, frozenset(asked.couplings.tied()))
    cost = sum(unit.subject.price for unit in kept)
    domains = dict(chosen) | {bind.key: value for bind in binds if bind.key not in chosen and (value := _value(kept, bind))}
    return Plan(asked.gang, tuple(_uses(asked, kept)), tuple(_purchases(asked, kept)), cost, domains, gap=solution.gap)


def _value(kept: Sequence[Unit], bind: Bind) -> str:
    """The domain of a level that the programme chose."""
    for unit in kept:
        if any(unit.pattern[role] for role in bind.roles):
            subject = unit.subject
            labels = subject.labels if isinstance(subject, Node) else {**subject.shape.labels, **subject.domain}
            return labels.get(bind.key, "")
    return ""


def _members(cells: Sequence[Cell]) -> list[Member]:
    return [member for cell in cells for member in cell.members]


def _pods(roles: Sequence[Role], pattern: Pattern) -> dict[str, int]:
    """For each pod set what a node is good for; pod sets of one role share the node's slots."""
    pairs = [(role, count) for role, count in zip(roles, pattern, strict=True) if count]
    return {member.name: min(member.count, count) for role, count in pairs for member in role.members}


def _uses(asked: Question, found: Sequence[Unit]) -> Iterator[Use]:
    nodes = [(unit.subject, unit.pattern) for unit in found if isinstance(unit.subject, Node)]
    for node, pattern in sorted(nodes, key=lambda one: one[0].name):
        yield Use(node, _pods(asked.roles, pattern))


def _purchases(asked: Question, found: Sequence[Unit]) -> Iterator[Purchase]:
    counts: dict[tuple[str, Pattern], tuple[Offering, int]] = {}
    for unit in found:
        if isinstance(unit.subject, Offering):
            key = (unit.subject.name, unit.pattern)
            counts[key] = unit.subject, counts.get(key, (unit.subject, 0))[1] + 1
    for _, pattern in sorted(counts):
        offering, count = counts[_, pattern]
        yield Purchase(offering, count, _pods(asked.roles, pattern))


def widened(asked: Question, plan: Plan) -> Iterator[Plan]:
    """The same nodes marked for more: a role with more nodes to go to is harder to keep out, though it gets in the way of others.

    Only where nothing ties roles to domains. The nodes are let to all roles that can be there, then to one role at a time.
    """
    if (
        asked.couplings.rules
        or asked.couplings.binds
        or any(one.binds for one in ways(asked.pod_sets, asked.snapshot.topology_keys, asked.preferences))
    ):
        return
    judge = Judge(asked, lucky_mixes, {})
    hosts = [judge.host(new_host(one.offering, asked.snapshot.topology_keys)) for one in plan.purchases]
    everyone = range(len(asked.roles))
    for chosen in (everyone, *([role] for role in everyone)):
        uses = tuple(replace(use, pods=_more(asked, judge.node(use.node)[0], use.pods, chosen)) for use in plan.uses)
        purchases = tuple(
            replace(one, pods=_more(asked, patterns, one.pods, chosen))
            for one, patterns in zip(plan.purchases, hosts, strict=True)
        )
        yield replace(plan, uses=uses, purchases=purchases)


def _more(asked: Question, patterns: Sequence[Pattern], pods: Mapping[str, int], chosen: Sequence[int]) -> dict[str, int]:
    most = [max(held) for held in zip(*patterns, strict=True)]
    return {**pods, **_pods(asked.roles, tuple(count if role in chosen else 0 for role, count in enumerate(most)))}
