"""Why a workload waits, told from the objects alone. Pure: what to say is decided here, what to read in facts.py."""

from collections.abc import Iterator

from admission.release import REJECTED
from corral.asked import Standing, held, since, standing, told
from corral.facts import Facts
from corral.pools import allowed, figures
from corral.quota import waits_for_quota
from corral.reading import left_out
from corral.traps import flavor_traps
from kube.core import StatusCondition
from kube.kueue import AdmissionCheckState


def answer(facts: Facts) -> str:
    """A first line `STATE reason age: message`, then indented numbers."""
    return "\n".join([*_lines(facts), *left_out(facts.hidden)])


def _lines(facts: Facts) -> Iterator[str]:
    workload = facts.workload
    if workload.finished:
        done = workload.condition("Finished")
        yield f"FINISHED {_age(facts, done)}: {_text(done)}"
    elif workload.admitted:
        whole = "admitted with all of its capacity" if facts.states else "admitted, and no check of Corral's is on it"
        yield f"RUNNING {_age(facts, workload.condition('Admitted'))}: {whole}"
    elif not workload.spec.active:
        yield from _inactive(facts)
    elif not workload.quota_reserved:
        yield from waits_for_quota(facts)
    elif workload.evicted:
        yield from _stopping(facts)
    else:
        yield from _capacity(facts)
        return
    for state in facts.states:
        yield from held(facts.booking(facts.request(state.name)))


def _inactive(facts: Facts) -> Iterator[str]:
    """By a check, or deactivated for another reason: by its user, say (Kueue v0.17.0 joins `Deactivated` with the cause). What
    is evicted already, as in a backoff, keeps that reason.
    """
    evicted, meta = facts.workload.condition("Evicted"), facts.workload.metadata
    if evicted is None or evicted.reason == REJECTED:
        yield f"REJECTED {_age(facts, evicted)}: {facts.rejection or _text(evicted)}"
        yield "  to do: correct what is named, then try again:"
    else:
        between = "between two attempts: " if evicted.reason == "AdmissionCheck" else ""
        yield f"DEACTIVATED {_age(facts, evicted)}: {between}{_text(evicted)}"
        yield "  to do: try again:"
    yield f"    kubectl patch workloads.kueue.x-k8s.io {meta.name} -n {meta.namespace}"
    yield """    --type merge -p '{"spec":{"active":true}}'"""


def _stopping(facts: Facts) -> Iterator[str]:
    """Kueue v0.17.0 clears the quota of an evicted Workload when its job has stopped, never where no job stands behind it."""
    workload = facts.workload
    evicted = workload.condition("Evicted")
    yield f"WAITING, not for capacity: it is being stopped, {_age(facts, evicted)}: {_text(evicted)}"
    yield from (f"  check {state.name} is {state.state}: {state.message}" for state in facts.states if state.message)
    if not workload.metadata.owner_references:
        yield "  to do: delete it: no job stands behind it, and Kueue leaves it to the job to give the quota back"


def _capacity(facts: Facts) -> Iterator[str]:
    """Each check of ours with its request; those that are ready, and those of others, in a line each."""
    waiting = [state for state in facts.states if state.state != "Ready"]
    others = [s for s in facts.workload.status.admission_checks if s.name not in facts.checks and s.state != "Ready"]
    if not waiting:
        names = "; ".join(f"check {s.name} is {s.state}: {s.message}" for s in others) or "Kueue has still to admit it"
        yield f"WAITING, not for capacity: {names}"
    for state in waiting:
        yield from _check(facts, state)
    if waiting:
        yield from _traps(facts)
        yield from (f"  waits for check {s.name} as well, which is not Corral's: {s.state}: {s.message}" for s in others)
    for state in facts.states:
        if state.state == "Ready":
            yield f"  check {state.name} is ready: {state.message}"
            yield from held(facts.booking(facts.request(state.name)))


def _check(facts: Facts, state: AdmissionCheckState) -> Iterator[str]:
    request = facts.request(state.name)
    found = standing(request) if request else None
    of = f"(check {state.name})" if len(facts.states) > 1 else ""
    if found is None or found.provisioned:
        words = state.message or "its ProvisioningRequest is still to be written: does the service that serves the check run?"
        found = Standing("", state.last_transition_time, words)
    yield from told(found, state.state.upper() if found.over else "WAITING", facts.now, of)
    if request:
        may = allowed(request, facts.pools, facts.policies, facts.workload.priority_class)
        yield from figures(found, may)
    yield from held(facts.booking(request))


def _traps(facts: Facts) -> Iterator[str]:
    """Of the flavors that it has quota of."""
    admission = facts.workload.status.admission
    names = {name for each in (admission.pod_set_assignments if admission else ()) for name in each.flavors.values()}
    yield from flavor_traps(facts.pools, names)


def _text(condition: StatusCondition | None) -> str:
    return (condition.message or condition.reason) if condition else "no word from Kueue yet"


def _age(facts: Facts, condition: StatusCondition | None) -> str:
    return since(condition.last_transition_time if condition else None, facts.now)
