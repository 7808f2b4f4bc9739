"""What the offerings of a snapshot have for a gang: those of one shape in one place are judged once."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from capacity.fit import Host, closed, lacking, needs, new_host, room, slots
from capacity.model import HOSTNAME, Constraint, Offering
from capacity.why.look import Look, constraint
from capacity.why.lots import Lot, Verdict, Where, usable

Part = tuple[Constraint | None, str, int]
"""Nodes of an offering that one constraint keeps from any gang, and how that is told; None and "" for those that can be had."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Alike nodes, as in Lot, of whatever offering; `told` has the words for each pod set, `why` those for the gang."""

    where: Where
    verdicts: tuple[Verdict, ...]
    usable: bool
    told: tuple[str, ...]
    why: str

    def lot(self, offering: Offering, count: int) -> Lot:
        details = tuple({detail: count} for detail in self.told)
        return Lot(offering, self.where, self.verdicts, self.usable, count, details, {self.why: count})


def sold(look: Look) -> Iterator[Lot]:
    """The lots of all offerings: of each as many as there are limits that make a difference, and what is left."""
    kinds: dict[tuple[object, ...], _Kind] = {}
    catalogue = look.stock.fleet.catalogues.of(look.snapshot.offerings, look.snapshot.topology_keys)
    for offering, shape in zip(catalogue.offerings, catalogue.shapes, strict=True):
        named = offering.name if HOSTNAME in look.keys else ""
        place = (shape, named, *map(offering.domain.get, look.labels))
        for bar, detail, count in _parts(look, offering):
            kind = kinds.get((place, bar, detail))
            if kind is None:
                kind = kinds[place, bar, detail] = _kind(look, offering, bar, detail)
            yield kind.lot(offering, count)


def _kind(look: Look, offering: Offering, bar: Constraint | None, detail: str) -> _Kind:
    new, labels = new_host(offering, look.snapshot.topology_keys), {**offering.shape.labels, **offering.domain}
    where = {key: f"a node of {offering.name}" if key == HOSTNAME else labels.get(key) for key in look.keys}
    found = [_verdict(look, index, new, where) for index in range(len(look.gang.pod_sets))]
    if bar:
        found = [(replace(verdict, constraint=bar), detail) for verdict, _ in found]
    verdicts, told = tuple(verdict for verdict, _ in found), tuple(words for _, words in found)
    goes = usable(verdicts)
    return _Kind(where, verdicts, goes, told, "" if goes else detail or look.why(told))


def _verdict(look: Look, index: int, new: Host, where: Where) -> tuple[Verdict, str]:
    """Of a node as it comes: what else runs there will always be there."""
    asked = needs(look.gang.pod_sets[index])
    size = slots(asked, new.free)
    bar, why = look.kept_off(index, new, where)
    short = next((name for name in sorted(asked) if room(new.free, name) < asked[name]), "")
    if not bar and short:
        bar, why = Constraint.TOO_SMALL, lacking(short, asked[short], room(new.free, short))
    elif not bar and (why := look.neighbours.refusal(index, new.labels, new.unknown)):
        bar = Constraint.RUNNING_PODS
    return Verdict(bar, size, size), why


def _parts(look: Look, offering: Offering) -> Iterator[Part]:
    """The nodes of an offering by what keeps them from any gang; each limit as if nothing else took of it."""
    bar = closed(offering, look.gang, look.snapshot.now, look.preferences)
    left = max(offering.total, offering.available)
    if bar and constraint(bar) is not Constraint.NOT_AVAILABLE:
        yield constraint(bar), look.timely(offering, bar), left
        return
    for limit, detail, kept in _caps(look, offering):
        if kept < left:
            yield limit, detail, left - kept
            left = kept
    if left:
        yield None, "", left


def _caps(look: Look, offering: Offering) -> Iterator[tuple[Constraint, str, int]]:
    """How many nodes each limit leaves."""
    yield Constraint.NOT_AVAILABLE, offering.unavailable or "in use, booked or kept spare", max(0, offering.available)
    for budget in look.snapshot.budgets:
        weight = budget.weight.get(offering.name, 0)
        if weight:
            yield Constraint.LIMIT, f"LimitExceeded: {budget.text}", max(0, budget.left) // weight
    ceiling = look.preferences.price_ceiling
    if ceiling is not None and offering.price:
        yield Constraint.PRICE_CEILING, "beyond the price ceiling", ceiling // offering.price
