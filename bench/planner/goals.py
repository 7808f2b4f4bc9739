"""The goals of S1 to S4, what was reached of them, and what stands between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.planner.compare import FEW_NODES, Row


@dataclass(frozen=True, slots=True)
class Goal:
    """`met` is None where it could not be measured."""

    scenario: str
    text: str
    reached: str
    met: bool | None
    between: str = ""


def goals(rows: Sequence[Row]) -> list[Goal]:
    by = {name: [row for row in rows if row.scenario == name] for name in ("S1", "S2", "S3", "S4")}
    return [*_s1(by["S1"]), *_s2(by["S2"]), *_s3(by["S3"]), *_s4(by["S4"])]


def _s1(rows: Sequence[Row]) -> Iterator[Goal]:
    for size, wanted in ((1_000, 200), (10_000, 2_000)):
        some = [row for row in rows if len(row.problem.nodes) == size]
        yield from _faster(some, "S1", f"{size} nodes", "check-capacity", wanted)
    if rows:
        yield _change(rows)
    for row in _largest(rows):
        passes = row.ours.kept / row.mask
        text = f"{row.problem.name}: within 5 times a pass over the nodes"
        yield Goal(
            "S1", text, f"{passes:.1f} times, {row.ours.kept / 1e6:.3f} ms", passes <= 5, row.profile if passes > 5 else ""
        )


def _change(rows: Sequence[Row]) -> Goal:
    """A pointer chase costs more where more memory is in use: three times as much at most passes for equal."""
    sizes: dict[int, list[int]] = {}
    for row in rows:
        sizes.setdefault(len(row.problem.nodes), []).append(row.ours.change)
    medians = {size: median(changes) / 1e3 for size, changes in sizes.items()}
    told = ", ".join(f"{cost:.0f} µs at {size}" for size, cost in medians.items())
    most, least = max(medians, key=lambda size: medians[size]), min(medians, key=lambda size: medians[size])
    times = medians[most] / medians[least]
    between = "" if times <= 3 else f"{times:.1f} times as much at {most} as at {least}, 3 times would pass for equal"
    return Goal("S1", "one node's change costs the same however many there are", told, times <= 3, between)


def _largest(rows: Sequence[Row]) -> list[Row]:
    """Of each size of cluster and fill the largest gang that fits: the case that the goals are about."""
    found: dict[str, Row] = {}
    for row in rows:
        if row.ours.feasible:
            key = row.problem.name.rsplit(",", 1)[0]
            if key not in found or row.problem.pods > found[key].problem.pods:
                found[key] = row
    return list(found.values())


def _faster(rows: Sequence[Row], scenario: str, where: str, peer: str, wanted: int) -> Iterator[Goal]:
    """Met only if it is in every case, small gangs and impossible ones included; the largest gang that fits is named first."""
    if not rows:
        return
    text = f"{where}: {wanted} times faster than {peer}"
    ratios = {row.problem.name: row.ratio for row in rows if row.ratio is not None}
    if not ratios:
        yield Goal(scenario, text, "the peer could not be had", None)
        return
    largest = max(rows, key=lambda row: (row.ours.feasible, row.problem.pods))
    slowest = min(rows, key=lambda row: row.ratio or 0)
    good = sum(ratio >= wanted for ratio in ratios.values())
    told = (
        f"{largest.ratio:.0f} times at {largest.problem.pods} pods, {slowest.ratio:.1f} at worst; {good} of {len(ratios)} cases"
    )
    yield Goal(scenario, text, told, good == len(ratios), "" if good == len(ratios) else _slow(slowest, wanted))


def _slow(row: Row, wanted: int) -> str:
    needed = (row.theirs.took if row.theirs else 0) / wanted / 1e6
    return f"{row.problem.name} takes {row.ours.kept / 1e6:.2f} ms where {needed:.3f} would do: {row.profile}"


def _s2(rows: Sequence[Row]) -> Iterator[Goal]:
    for size in sorted({len(row.problem.nodes) for row in rows if row.problem.nodes}):
        for kind, some in (
            ("nodes", [row for row in rows if len(row.problem.nodes) == size]),
            ("reserved", _reserved(rows, size)),
        ):
            yield from _faster(some, "S2", f"{size} hosts as {kind}", "Kueue", 100)
    few = [row for row in rows if row.ours.feasible and len(row.problem.nodes) <= FEW_NODES and row.problem.nodes]
    if few:
        worse = [row for row in few if row.racks != row.fewest]
        told = "; ".join(f"{row.problem.name}: {row.racks} racks, {row.fewest} would do" for row in worse)
        yield Goal(
            "S2", "as few racks as can be, up to 1,000 nodes", f"{len(few) - len(worse)} of {len(few)} cases", not worse, told
        )


def _reserved(rows: Sequence[Row], size: int) -> list[Row]:
    return [row for row in rows if not row.problem.nodes and row.problem.name.startswith(f"{size} nodes,")]


def _s3(rows: Sequence[Row]) -> Iterator[Goal]:
    yield from _faster(
        [row for row in rows if row.problem.name.startswith("512 pods")], "S3", "512 new nodes", "Karpenter", 1_000
    )
    bounded = [row for row in rows if row.linear and row.linear.cost and row.ours.feasible]
    if bounded:
        worst = max(bounded, key=_over)
        text, met = f"{_over(worst):.4f} at worst ({worst.problem.name})", _over(worst) <= 1.01
        yield Goal("S3", "cost within 1.01 of the linear bound", text, met, "" if met else _rounding(worst))
        alike = [row for row in bounded if len(row.problem.gangs[0].sets) == 1 and row.integer and row.integer.solved]
        dearer = [row for row in alike if row.integer and row.ours.cost != row.integer.cost]
        told = f"{len(alike) - len(dearer)} of {len(alike)} cases"
        yield Goal("S3", "cost equal to the optimum for identical pods", told, not dearer, "; ".join(map(_rounding, dearer)))
    yield from _cheaper(rows, "S3")


def _over(row: Row) -> float:
    return row.ours.cost / row.linear.cost if row.linear and row.linear.cost else 1.0


def _rounding(row: Row) -> str:
    """The bound in fractions of nodes may be out of reach; the one in whole nodes says how much of the difference is ours."""
    if row.integer is None or not row.integer.cost:
        return ""
    solved = "" if row.integer.solved else ", not solved to the end"
    return f"{row.problem.name}: {row.ours.cost / row.integer.cost:.4f} of the bound in whole nodes{solved}"


def _cheaper(rows: Sequence[Row], scenario: str) -> Iterator[Goal]:
    both = [row for row in rows if row.theirs and row.theirs.cost and row.theirs.feasible and row.ours.feasible]
    if both:
        shares = {row.problem.name: row.ours.cost / (row.theirs.cost or 1) for row in both if row.theirs}
        text = f"{min(shares.values()):.4f} to {max(shares.values()):.4f} of its cost in {len(both)} cases"
        over = [f"{name} ({share:.4f})" for name, share in shares.items() if share > 1]
        luck = "the peer's plan holds only if no pod takes a place that another kind of pod needs, ours always: "
        yield Goal(scenario, "never costlier than Karpenter", text, not over, luck + ", ".join(over) if over else "")


def _s4(rows: Sequence[Row]) -> Iterator[Goal]:
    yield from _cheaper(rows, "S4")
    for row in rows:
        if row.integer and row.integer.cost:
            share = row.ours.cost / row.integer.cost
            text = f"{share:.4f} of it{'' if row.integer.solved else ' (not solved to the end)'}"
            alone = f"{row.alone} of {len(row.problem.gangs)} cost what they must on what was left to them"
            why = f"gangs are planned one after the other; {alone}"
            yield Goal(
                "S4", "within 1 % of the best plan for all gangs at once", text, share <= 1.01, "" if share <= 1.01 else why
            )
