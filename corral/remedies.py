"""What to do about each kind of waiting, and about what the provisioner's messages name. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence

from capacity.model import Reason

FIT = "would fit: "
HOPELESS = "it would not fit even if all were free"

_BY_REASON: Mapping[str, str] = {
    Reason.CAPACITY_PROVISIONING: "wait: all is booked or ordered; what a machine still lacks stands below",
    Reason.TOPOLOGY_UNSATISFIED: "wait until one domain has room for all, ask for fewer pods or for a wider level",
    Reason.RESERVATION_MISMATCH: "let the job accept the prepaid machines that are free, or the policy use others",
    Reason.GANG_INCOMPLETE: "wait: it starts by itself once all of its pods can be had",
    "InvalidArgument": "correct what is named; pods that have to change need the job made anew",
    "Undecidable": "take what is named out of the pod template, or use a queue without this check",
}
# The first that the message says, for it is nearer to the cause than the reason: words of provisioner/ and capacity/why.
_BY_WORDS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(words), remedy)
    for words, remedy in (
        (r"others may bring nodes", "bring nodes to the pool that is named, or change the job, the pools or the policy"),
        (HOPELESS, "waiting can't help: change the job, the pools or the policy"),
        (r"\Aattempt \d+ failed", "wait: it is tried again by itself; mend what the message names"),
        (r"is in Observe", "set spec.mode of the pool to Active: until then it only shows what it would do"),
        (r"pool \S+ is Paused", "set spec.mode of the pool to Active again, or let the policy use other pools"),
        (r"is first in turn", "wait for its turn, or raise the priority of the Workload"),
        (r"isn't there: create it", "create what is named: it is looked at again at once"),
        (r"DaemonSetsBlocked in pool", "add the toleration that is named to the DaemonSet"),
        (r"the cloud of pool \S+ (was|wasn't)", "see what the pool's cloud says: kubectl describe cpool"),
        (r"LimitExceeded", "wait until others give back, or ask the pool's owner to raise the limit that is named"),
        (r"under the price ceiling", "wait for what costs less, or raise priceCeilingPerHour of the policy"),
    )
)


def remedy(reason: str, message: str) -> Iterator[str]:
    """A line, or none where the message says itself what to do."""
    text = next((remedy for words, remedy in _BY_WORDS if words.search(message)), "") or _BY_REASON.get(reason)
    if text:
        yield f"{text}; or take what stands after `would fit`" if FIT in message else text
