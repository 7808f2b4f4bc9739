"""The terms of an admission check: what its parameters lead to, or why they lead nowhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from admission.gang import WorkloadMistakeError
from admission.model import RetryRule
from kube import kueue, ours
from kube.kueue import ParametersReference, ProvisioningRequestConfig, ProvisioningRequestConfigSpec, RetryStrategy
from kube.ours import CapacityPolicy, RetryPolicy
from kube.times import seconds

CONTROLLER = "corral.dev/capacity"
CLASS = "gang.corral.dev"
POLICY = "policy"
DEFAULT_POLICY = "default"
RETRY_LIMIT = "retryLimit"
OVERRIDE_PREFIX = "provreq.kueue.x-k8s.io/"  # Kueue copies annotations with this prefix from the job to its Workload
VALUE_LIMIT = 255  # characters of a parameter's value, by the ProvisioningRequest CRD
PARAMETER_LIMIT = 100  # parameters of one request, by the same


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which requests are made. `managed` are the resources that need capacity (empty: all pods do).

    `note` tells who runs the check what of its parameters is not followed, "" where all is.
    """

    parameters: Mapping[str, str]
    retry: RetryRule
    managed: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a check has no terms, naming object, field and remedy."""

    why: str


@dataclass(frozen=True, slots=True)
class Files:
    """Ways to look up a CapacityPolicy and Kueue's ProvisioningRequestConfig by name."""

    policy: Callable[[str], CapacityPolicy | None]
    config: Callable[[str], ProvisioningRequestConfig | None]


def retry_rule(policy: RetryPolicy) -> RetryRule:
    """The policy's retry in seconds."""
    return RetryRule(policy.limit, seconds(policy.backoff), seconds(policy.max_backoff))


DEFAULT_RETRY = retry_rule(RetryPolicy())


def terms(reference: ParametersReference | None, files: Files, priority_class: str = "") -> Terms | Unusable:
    """Follows the check's parameters to a CapacityPolicy, or by way of Kueue's ProvisioningRequestConfig.

    `priority_class` is the workload's: the policy may hand it to another one. "" asks for the check's own terms.
    """
    if reference is None:
        return Unusable("missing parameters: set spec.parameters to a CapacityPolicy (apiGroup corral.dev)")
    if (reference.api_group, reference.kind) == (ours.GROUP, "CapacityPolicy"):
        return _of_policy(reference.name, files, priority_class)
    if (reference.api_group, reference.kind) == (kueue.GROUP, "ProvisioningRequestConfig"):
        return _of_config(reference.name, files, priority_class)
    return Unusable(
        f'spec.parameters: kind "{reference.kind}" of group "{reference.api_group}" is unknown here: '
        f"refer to a CapacityPolicy of {ours.GROUP} or a ProvisioningRequestConfig of {kueue.GROUP}"
    )


def _of_policy(name: str, files: Files, priority_class: str) -> Terms | Unusable:
    """The request names the check's policy; the provisioner finds the one that serves the class by the same rule."""
    chosen = _serving(name, files, priority_class)
    return chosen if isinstance(chosen, Unusable) else Terms({POLICY: name}, retry_rule(chosen.spec.retry))


def _serving(name: str, files: Files, priority_class: str) -> CapacityPolicy | Unusable:
    """The policy on whose terms workloads of the priority class are served."""
    found = files.policy(name)
    if found is None:
        return Unusable(f'CapacityPolicy "{name}" is not there or not valid: create or correct it')
    serving = found.serving(priority_class)
    chosen = found if serving == name else files.policy(serving)
    if chosen is None:
        return Unusable(
            f'CapacityPolicy "{name}": spec.byPriorityClass hands {priority_class} to CapacityPolicy "{serving}", '
            f"which is not there or not valid: create it or correct the name"
        )
    return chosen


def _of_config(name: str, files: Files, priority_class: str) -> Terms | Unusable:
    """A config of another class is one that the in-tree controller served before: its parameters mean nothing to ours."""
    found = files.config(name)
    subject = f'ProvisioningRequestConfig "{name}"'
    if found is None:
        return Unusable(f"{subject} is not there: create it")
    spec = found.spec
    policy = spec.parameters.get(POLICY, DEFAULT_POLICY)
    chosen = _serving(policy, files, priority_class)
    if isinstance(chosen, Unusable):
        return Unusable(f"{subject}: {chosen.why}")
    given = {**(spec.parameters if spec.provisioning_class_name == CLASS else {}), POLICY: policy}
    if refused := next(filter(None, (_refused(key, chosen) for key in given)), ""):
        return Unusable(f"{subject}: spec.parameters.{refused}")
    rule = _strategy(spec.retry_strategy) if spec.retry_strategy else retry_rule(chosen.spec.retry)
    return Terms(given, rule, spec.managed_resources, _unfollowed(spec, policy))


def _refused(key: str, policy: CapacityPolicy) -> str:
    """Why the provisioner would refuse every request with this parameter, whatever its value; "" if it would not."""
    if key == POLICY:
        return ""
    opening = ours.OVERRIDES.get(key)
    if opening is None:
        return f"{key[:80]} is unknown: remove it; known are {', '.join((POLICY, *ours.OVERRIDES))}"
    if opening in policy.spec.user_overrides:
        return ""
    return (
        f'{key}: CapacityPolicy "{policy.metadata.name}" does not open it: remove it, '
        f"or add {opening} to userOverrides of the policy"
    )


def _unfollowed(spec: ProvisioningRequestConfigSpec, policy: str) -> str:
    """What of a config has no effect here: pods are always steered by the booking's own labels, each pod set by its own."""
    notes: list[str] = []
    if spec.provisioning_class_name != CLASS:
        dropped = sorted(spec.parameters.keys() - {POLICY})
        without = f" without {', '.join(dropped)}" if dropped else ""
        notes.append(f'class {CLASS} with CapacityPolicy "{policy}" serves it{without}, not {spec.provisioning_class_name}')
    if spec.pod_set_updates and spec.pod_set_updates.node_selector:
        notes.append("podSetUpdates has no effect")
    if spec.pod_set_merge_policy:
        notes.append("podSetMergePolicy has no effect")
    return "; ".join(notes)


def _strategy(strategy: RetryStrategy) -> RetryRule:
    limit, base, longest = strategy.backoff_limit_count, strategy.backoff_base_seconds, strategy.backoff_max_seconds
    return RetryRule(3 if limit is None else limit, 60 if base is None else base, 1800 if longest is None else longest)


def parameters(terms: Terms, annotations: Mapping[str, str]) -> dict[str, str]:
    """The request's parameters: the check's own, overlaid by the workload's overrides.

    Which overrides a policy opens is for the provisioner to say. Raises WorkloadMistakeError for an override of the policy itself
    and for what no request can carry.
    """
    overrides = {
        key.removeprefix(OVERRIDE_PREFIX): value for key, value in annotations.items() if key.startswith(OVERRIDE_PREFIX)
    }
    if POLICY in overrides:
        raise WorkloadMistakeError(
            f"annotation {OVERRIDE_PREFIX}{POLICY}: the admission check chooses the policy: remove the annotation"
        )
    for key, value in overrides.items():
        if len(value) > VALUE_LIMIT:
            raise WorkloadMistakeError(
                f"annotation {OVERRIDE_PREFIX}{key}: longer than {VALUE_LIMIT} characters: shorten the value"
            )
    merged = {**terms.parameters, **overrides}
    if len(merged) > PARAMETER_LIMIT:
        raise WorkloadMistakeError(f"annotations {OVERRIDE_PREFIX}*: more than {PARAMETER_LIMIT} parameters in all: remove some")
    return merged


def retry_for(terms: Terms, annotations: Mapping[str, str]) -> RetryRule:
    """The retries of a workload with these annotations: it may ask for fewer. The provisioner refuses what is no number."""
    asked = annotations.get(OVERRIDE_PREFIX + RETRY_LIMIT, terms.parameters.get(RETRY_LIMIT, ""))
    fewer = int(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 4 else terms.retry.limit
    return replace(terms.retry, limit=min(fewer, terms.retry.limit))
