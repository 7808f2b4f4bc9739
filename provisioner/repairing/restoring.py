"""The rules of other nodes in place of lost ones, as those in `provisioner.rules`: one look at one view, one step. Pure."""

from provisioner.repairing import absences, standins
from provisioner.repairing.slots import StandIn
from provisioner.steps import Step, Unmark, View


def stand_in(view: View) -> Step | None:
    """Look for other nodes in place of lost ones: idle ones first, and whatever fits for what can't be bought again."""
    slots = standins.wanted(view) if view.replacing and view.seen.sought.due else ()
    return StandIn(slots) if slots else None


def let_go(view: View) -> Step | None:
    """Take the marks off nodes that were given up for lost and are well again, or quarantined, without pods of the gang."""
    names = absences.released(view)
    return Unmark(names) if names else None
