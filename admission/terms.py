"""The terms of an admission check: what its parameters lead to, or why they lead nowhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from admission.decide import RetryRule
from admission.gang import WorkloadMistakeError
from kube import kueue, ours
from kube.kueue import ParametersReference, ProvisioningRequestConfig, RetryStrategy
from kube.ours import CapacityPolicy, RetryPolicy
from kube.times import seconds

CONTROLLER = "corral.dev/capacity"
CLASS = "gang.corral.dev"
POLICY = "policy"
OVERRIDE_PREFIX = "provreq.kueue.x-k8s.io/"  # Kueue copies annotations with this prefix from the job to its Workload
VALUE_LIMIT = 255  # characters of a parameter's value, by the ProvisioningRequest CRD
PARAMETER_LIMIT = 100  # parameters of one request, by the same


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which requests are made. `managed` are the resources that need capacity (empty: all pods do)."""

    parameters: Mapping[str, str]
    retry: RetryRule
    managed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a check has no terms, naming object, field and remedy."""

    why: str


def retry_rule(policy: RetryPolicy) -> RetryRule:
    """The policy's retry in seconds."""
    return RetryRule(policy.limit, seconds(policy.backoff), seconds(policy.max_backoff))


DEFAULT_RETRY = retry_rule(RetryPolicy())


def terms(
    reference: ParametersReference | None,
    policy: Callable[[str], CapacityPolicy | None],
    config: Callable[[str], ProvisioningRequestConfig | None],
) -> Terms | Unusable:
    """Follows the check's parameters to a CapacityPolicy, or by way of Kueue's ProvisioningRequestConfig.

    A config's podSetUpdates and podSetMergePolicy have no effect: pods are always steered by the booking's own labels, and each
    pod set keeps its own template. Its retryStrategy and managedResources are followed.
    """
    if reference is None:
        return Unusable("missing parameters: set spec.parameters to a CapacityPolicy (apiGroup corral.dev)")
    if (reference.api_group, reference.kind) == (ours.GROUP, "CapacityPolicy"):
        return _of_policy(reference.name, policy)
    if (reference.api_group, reference.kind) == (kueue.GROUP, "ProvisioningRequestConfig"):
        return _of_config(reference.name, policy, config)
    return Unusable(
        f'spec.parameters: kind "{reference.kind}" of group "{reference.api_group}" is unknown here: '
        f"refer to a CapacityPolicy of {ours.GROUP} or a ProvisioningRequestConfig of {kueue.GROUP}"
    )


def _of_policy(name: str, policy: Callable[[str], CapacityPolicy | None]) -> Terms | Unusable:
    found = policy(name)
    if found is None:
        return Unusable(f'CapacityPolicy "{name}" is not there or not valid: create or correct it')
    return Terms({POLICY: name}, retry_rule(found.spec.retry))


def _of_config(
    name: str,
    policy: Callable[[str], CapacityPolicy | None],
    config: Callable[[str], ProvisioningRequestConfig | None],
) -> Terms | Unusable:
    found = config(name)
    subject = f'ProvisioningRequestConfig "{name}"'
    if found is None:
        return Unusable(f"{subject} is not there: create it")
    spec = found.spec
    if spec.provisioning_class_name != CLASS:
        return Unusable(f'{subject}: spec.provisioningClassName is "{spec.provisioning_class_name}": set it to {CLASS}')
    if POLICY not in spec.parameters:
        return Unusable(f'{subject}: spec.parameters has no "{POLICY}": name a CapacityPolicy there')
    inner = _of_policy(spec.parameters[POLICY], policy)
    if isinstance(inner, Unusable):
        return Unusable(f"{subject}: {inner.why}")
    rule = _strategy(spec.retry_strategy) if spec.retry_strategy else inner.retry
    return Terms(dict(spec.parameters), rule, spec.managed_resources)


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
