"""Rules among domains as rows of the integer programme. Each says in its docstring why what it admits survives any order.

`s` are the slots of a role on the nodes taken in one domain, `n` the nodes taken there for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from capacity.programme.couplings import Apart, Bind, Even, Follow, Many, Rule, Sliced, Units, concerned
from capacity.programme.milp import Programme, Terms

if TYPE_CHECKING:
    from capacity.programme.solver import Column, Limits

UNKNOWN = "?"
"""The domain of a node not yet launched that only the launch will tell; no valid label value."""
ABSENT = ""
"""The domain of a node that lacks the label."""


@dataclass(frozen=True, slots=True)
class Variables:
    """The first variables of a programme: how many nodes of a column hold one of its patterns."""

    columns: Sequence["Column"]
    pairs: Sequence[tuple[int, int]]
    keys: tuple[str, ...]

    def slots(self, role: int, among: Iterable[int] | None = None) -> Terms:
        return {j: held for j in self._all(among) if (held := self._held(j, role))}

    def nodes(self, role: int, among: Iterable[int] | None = None) -> Terms:
        return {j: 1 for j in self._all(among) if self._held(j, role)}

    def counted(self, role: int, number: int, among: Iterable[int]) -> Terms:
        """Running pods that the spread `number` counts on the nodes taken for the role."""
        return {j: self.columns[self.pairs[j][0]].counted[number] for j in among if self._held(j, role)}

    def domains(self, key: str, *roles: int) -> dict[str, list[int]]:
        """The variables that hold one of the roles, by domain, UNKNOWN and ABSENT among them."""
        place = self.keys.index(key)
        found: dict[str, list[int]] = {}
        for j, (index, _) in enumerate(self.pairs):
            if any(self._held(j, role) for role in roles):
                found.setdefault(self.columns[index].where[place], []).append(j)
        return dict(sorted(found.items()))

    def _all(self, among: Iterable[int] | None) -> Iterable[int]:
        return range(len(self.pairs)) if among is None else among

    def _held(self, j: int, role: int) -> int:
        index, number = self.pairs[j]
        return self.columns[index].patterns[number][role]


def tie(programme: Programme, variables: Variables, rule: Rule | Bind, demand: Sequence[int], limits: "Limits") -> None:
    """Add the rule's rows. A role that must know its domain doesn't go where it is not known, unless `limits.lenient`: then the
    rule is left out where such nodes could matter.
    """
    if rule.key not in variables.keys:
        _on_hosts(programme, variables, rule)
        return
    domains = variables.domains(rule.key, *_roles(rule))
    unknown = domains.pop(UNKNOWN, [])
    if unknown and limits.lenient:
        return
    absent = domains.pop(ABSENT, [])
    for j in (*unknown, *(absent if not isinstance(rule, Apart) else ())):
        programme.most({j: 1}, 0)
    _tie(programme, variables, rule, domains, demand, limits)


def _on_hosts(programme: Programme, variables: Variables, rule: Rule | Bind) -> None:
    """What is left of rules about single hosts when their patterns are known."""
    if isinstance(rule, Many):
        programme.least(variables.nodes(rule.role), rule.nodes)
    if isinstance(rule, Follow) and not rule.first and not rule.met:  # hosts that running pods meet are not told apart here
        others = {j for other in rule.others for j in variables.nodes(other)}
        for j in variables.nodes(rule.role):
            if j not in others:
                programme.most({j: 1}, 0)


def _tie(
    programme: Programme,
    variables: Variables,
    rule: Rule | Bind,
    domains: Mapping[str, list[int]],
    demand: Sequence[int],
    limits: "Limits",
) -> None:
    match rule:
        case Bind():
            _one_domain(programme, variables, rule, domains, demand)
        case Apart():
            _apart(programme, variables, rule, domains)
        case Even():
            _even(programme, variables, rule, domains, demand, limits)
        case Follow():
            _follow(programme, variables, rule, domains)
        case Sliced():
            _sliced(programme, variables, rule, domains, demand[rule.role], lenient=limits.lenient)
        case Units():
            _units(programme, variables, rule, domains, demand[rule.role])


def _roles(rule: Rule | Bind) -> Sequence[int]:
    return sorted(rule.roles) if isinstance(rule, Bind) else concerned(rule)


def _one_domain(
    programme: Programme, variables: Variables, rule: Bind, domains: Mapping[str, list[int]], demand: Sequence[int]
) -> None:
    """The one that is chosen holds all pods: that says no more than the demand does, but parts of domains don't add up to one."""
    chosen = {}
    for inside in domains.values():
        one = programme.variable(1)
        chosen[one] = 1
        for role in sorted(rule.roles):
            _only_if(programme, variables.nodes(role, inside), one, variables)
            programme.most({one: demand[role], **_minus(variables.slots(role, inside))}, 0)
    programme.most(chosen, 1)
    programme.least(chosen, 1)


def _apart(programme: Programme, variables: Variables, rule: Apart, domains: Mapping[str, list[int]]) -> None:
    """A role apart from itself takes one node with one slot in each domain. Two roles that share no domain never meet."""
    for inside in domains.values():
        if rule.one == rule.other:
            programme.most(variables.nodes(rule.one, inside), 1)
            continue
        side = programme.variable(1)
        _only_if(programme, variables.nodes(rule.one, inside), side, variables)
        _only_unless(programme, variables.nodes(rule.other, inside), side, variables)


def _even(
    programme: Programme,
    variables: Variables,
    rule: Even,
    domains: Mapping[str, list[int]],
    demand: Sequence[int],
    limits: "Limits",
) -> None:
    """With fullest level M = min over domains of (running + s), the domains take min(s, M + skew - running) pods each in any
    order: a pod is turned away for good only if each domain is full or `skew` above the emptiest, and then the emptiest is full.

    Where the domains are those of the nodes taken (node affinity honoured), they are chosen here, and M counts as 0 while there
    are fewer than `min_domains`. Otherwise each domain there is counts, taken or not, and those that new nodes open.
    """
    wanted = demand[rule.role]
    big = wanted + rule.skew + _most_counted(variables) + sum(rule.elsewhere.values() if rule.elsewhere else ())
    big += sum(demand[other] for other in rule.others)
    level, enough, used = programme.variable(big), programme.variable(1), list[int]()
    taken_all: dict[int, int] = {}
    for value, inside in domains.items():
        slots, nodes = variables.slots(rule.role, inside), variables.nodes(rule.role, inside)
        use, taken, over = programme.variable(1), programme.variable(wanted), programme.variable(1)
        used += [use] if rule.elsewhere is None or value not in rule.elsewhere else []
        taken_all[taken] = 1
        _only_if(programme, nodes, use, variables)
        programme.most({use: 1, **_minus(nodes)}, 0)
        programme.most({taken: 1, **_minus(slots)}, 0)
        running, fixed = _running(variables, rule, value, inside, limits)
        programme.most({taken: 1, level: -1, over: -big, **running}, rule.skew - fixed)
        programme.most({taken: 1, over: wanted}, wanted)
        beside = _beside(variables, rule, value) if limits.lenient else {}
        base = {level: 1, **_minus(_sum(slots, running, beside))}
        if rule.elsewhere is None or value not in rule.elsewhere:
            programme.most({**base, use: big}, big + fixed)
        else:
            programme.most(base, fixed)
    programme.least(taken_all, wanted)
    programme.most({level: 1, enough: -big}, 0)
    elsewhere = rule.elsewhere or {}
    programme.most({enough: rule.min_domains, **dict.fromkeys(used, -1)}, len(elsewhere))
    for value, count in elsewhere.items():
        if value not in domains:
            programme.most({level: 1}, count)


def _follow(programme: Programme, variables: Variables, rule: Follow, domains: Mapping[str, list[int]]) -> None:
    """What must hold at the end, however lucky the order: a pod joins a domain only for another pod that is there."""
    firsts: dict[int, int] = {}
    for value, inside in domains.items():
        if value in rule.met:
            continue
        mine = variables.nodes(rule.role, inside)
        size, first = _size(mine, variables), programme.variable(1 if rule.first else 0)
        firsts[first] = 1
        there: dict[int, int] = {}
        for other in rule.others:
            there |= variables.nodes(other, variables.domains(rule.key, other).get(value, []))
        more = {j: factor - size * there.get(j, 0) for j, factor in mine.items()}
        programme.most({**dict.fromkeys(there, -size), **more, first: -size}, 0)
    programme.most(firsts, 1)


def _running(variables: Variables, rule: Even, value: str, inside: Sequence[int], limits: "Limits") -> tuple[Terms, int]:
    """Pods in the domain that the spread counts: by the nodes that are taken, or fixed."""
    if rule.elsewhere is not None:
        return {}, rule.elsewhere.get(value, 0)
    evens = [one for one in limits.rules if isinstance(one, Even) and one.elsewhere is None]
    return variables.counted(rule.role, evens.index(rule), inside), 0


def _beside(variables: Variables, rule: Even, value: str) -> Terms:
    """Pods of other roles that the spread may count: in luck they fill up the emptiest domain."""
    return _sum(*(variables.slots(other, variables.domains(rule.key, other).get(value, [])) for other in sorted(rule.others)))


def _sum(*terms: Terms) -> dict[int, int]:
    total: dict[int, int] = {}
    for one in terms:
        for index, factor in one.items():
            total[index] = total.get(index, 0) + factor
    return total


def _most_counted(variables: Variables) -> int:
    return sum(column.limit * max(column.counted, default=0) for column in variables.columns)


def _sliced(
    programme: Programme, variables: Variables, rule: Sliced, domains: Mapping[str, list[int]], wanted: int, *, lenient: bool
) -> None:
    """Kueue counts whole slices in each domain (tas_flavor_snapshot.go, fillInCounts) and pins the pods. Where nobody does, the
    slots of each domain are whole slices and exactly all pods fill them; or there is a `single` domain, whatever its slots.
    """
    slices: dict[int, int] = {}
    used: dict[int, int] = {}
    exact = rule.exact and not lenient
    single = programme.variable(1)
    for inside in domains.values():
        slots = variables.slots(rule.role, inside)
        most = sum(factor * variables.columns[variables.pairs[j][0]].limit for j, factor in slots.items())
        whole = programme.variable(max(wanted, most) // rule.size)
        slices[whole] = rule.size
        programme.most({whole: rule.size, **_minus(slots)}, 0)
        if exact:
            use = programme.variable(1)
            used[use] = 1
            programme.most({whole: -rule.size, **slots, single: -most}, 0)
            _only_if(programme, variables.nodes(rule.role, inside), use, variables)
    programme.least(slices, wanted)
    if exact:
        every = _size(variables.slots(rule.role), variables) * max(variables.slots(rule.role).values(), default=0)
        programme.most({**slices, single: -every}, wanted)
        programme.most({**used, single: len(used)}, len(used) + 1)


def _units(programme: Programme, variables: Variables, rule: Units, domains: Mapping[str, list[int]], wanted: int) -> None:
    """Whichever empty domain the first pod of a unit picks, it has room for the rest of the unit."""
    units: dict[int, int] = {}
    for inside in domains.values():
        one = programme.variable(1)
        units[one] = rule.size
        programme.most({one: rule.size, **_minus(variables.slots(rule.role, inside))}, 0)
        _only_if(programme, variables.nodes(rule.role, inside), one, variables)
    programme.least(units, wanted)


def _only_if(programme: Programme, nodes: Terms, flag: int, variables: Variables) -> None:
    programme.most({**nodes, flag: -_size(nodes, variables)}, 0)


def _only_unless(programme: Programme, nodes: Terms, flag: int, variables: Variables) -> None:
    size = _size(nodes, variables)
    programme.most({**nodes, flag: size}, size)


def _size(nodes: Terms, variables: Variables) -> int:
    return sum(variables.columns[variables.pairs[j][0]].limit for j in nodes)


def _minus(terms: Terms) -> dict[int, int]:
    return {index: -factor for index, factor in terms.items()}
