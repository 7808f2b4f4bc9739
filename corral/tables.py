"""What was considered, as tables."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from capacity.model import Considered, RuledOut


def tabulate(trees: Sequence[Considered]) -> None:
    """Prints one table for each pod set."""
    console().print(*(_table(tree) for tree in trees), sep="\n")


def console() -> Console:
    """As wide as the terminal, or wide enough for anything where there is none."""
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=160)


def _table(tree: Considered) -> Table:
    table = Table("place", "nodes", "ruled out", "why", "usable", "room for pods", title=tree.subject, title_justify="left")
    _add(table, tree, 0)
    table.add_section()
    for place in tree.inside:
        _add(table, place, 1)
        for inner in place.inside:
            _add(table, inner, 2)
    if tree.domains:
        table.add_section()
        table.add_row(f"by {tree.level}")
    for place in tree.domains:
        _add(table, place, 1)
    return table


def _add(table: Table, place: Considered, depth: int) -> None:
    """One row for the place, one more for each further constraint."""
    name = "everything" if not depth else f"{'  ' * depth}{place.subject}"
    totals = (str(place.nodes), str(place.usable_nodes), str(place.usable_pods))
    first, *rest = place.ruled_out or (None,)
    table.add_row(name, totals[0], *(_ruled_out(first) if first else ("", "")), *totals[1:])
    for one in rest:
        table.add_row("", "", *_ruled_out(one), "", "")


def _ruled_out(one: RuledOut) -> tuple[str, str]:
    return (f"{one.nodes} nodes" if one.nodes else "") + f" {one.pods} pods", f"{one.constraint}: {one.detail}"
