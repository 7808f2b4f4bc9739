from typing import Any

import pytest
from msgspec import structs

from admission.gang import WorkloadMistakeError
from admission.model import RetryRule
from admission.terms import Files, Terms, Unusable, parameters, retry_for, terms
from kube.kueue import ParametersReference
from kube.ours import ByPriorityClass, CapacityPolicy
from tests.admission.objects import config, policy

POLICY = ParametersReference(api_group="corral.dev", kind="CapacityPolicy", name="training")
CONFIG = ParametersReference(api_group="kueue.x-k8s.io", kind="ProvisioningRequestConfig", name="cfg")
GOOD: dict[str, Any] = {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": "training", "runDuration": "1h"}}
OPENED = ("runDuration", "retry.limit")
BASE = Terms({"policy": "training"}, RetryRule(1, 10, 30))


def found(reference: ParametersReference | None, **spec: Any) -> Terms | Unusable:
    policies = {"training": opened(policy(limit=1, backoff="10s", maxBackoff="30s"))}
    configs = {"cfg": config(**spec)} if spec else {}
    return terms(reference, Files(policies.get, configs.get))


def opened(given: CapacityPolicy) -> CapacityPolicy:
    return structs.replace(given, spec=structs.replace(given.spec, user_overrides=OPENED))


@pytest.mark.parametrize(
    ("reference", "spec", "words"),
    [
        pytest.param(None, {}, "missing parameters: set spec.parameters", id="no parameters specified"),
        pytest.param(
            ParametersReference(api_group="x.y", kind="CapacityPolicy", name="t"),
            {},
            'group "x.y" is unknown here',
            id="bad ref group",
        ),
        pytest.param(
            ParametersReference(api_group="corral.dev", kind="CapacityPool", name="t"),
            {},
            'kind "CapacityPool"',
            id="bad ref kind",
        ),
        pytest.param(
            ParametersReference(api_group="corral.dev", kind="CapacityPolicy", name="none"),
            {},
            'CapacityPolicy "none" is not there or not valid',
            id="policy missing",
        ),
        pytest.param(CONFIG, {}, 'ProvisioningRequestConfig "cfg" is not there: create it', id="config missing"),
        pytest.param(
            CONFIG,
            {"provisioningClassName": "gang.corral.dev"},
            'ProvisioningRequestConfig "cfg": CapacityPolicy "default" is not there',
            id="config without policy and no default one",
        ),
        pytest.param(
            CONFIG,
            {"provisioningClassName": "gang.corral.dev", "parameters": {"policy": "none"}},
            'ProvisioningRequestConfig "cfg": CapacityPolicy "none"',
            id="policy of the config missing",
        ),
        pytest.param(
            CONFIG,
            {**GOOD, "parameters": {"policy": "training", "queuedTimeout": "1h"}},
            'ProvisioningRequestConfig "cfg": spec.parameters.queuedTimeout: CapacityPolicy "training" does not open it: '
            "remove it, or add timeouts.queued to userOverrides of the policy",
            id="a parameter that the policy does not open",
        ),
        pytest.param(
            CONFIG,
            {**GOOD, "parameters": {"policy": "training", "runDurations": "1h"}},
            'ProvisioningRequestConfig "cfg": spec.parameters.runDurations is unknown: remove it; known are policy, required',
            id="a mistyped parameter",
        ),
    ],
)
def test_unusable_parameters_name_object_and_remedy(
    reference: ParametersReference | None, spec: dict[str, Any], words: str
) -> None:
    result = found(reference, **spec)
    assert isinstance(result, Unusable)
    assert words in result.why


@pytest.mark.parametrize(
    ("reference", "spec", "expected"),
    [
        pytest.param(POLICY, {}, BASE, id="policy"),
        pytest.param(CONFIG, GOOD, Terms({"policy": "training", "runDuration": "1h"}, RetryRule(1, 10, 30)), id="config"),
        pytest.param(
            CONFIG,
            {
                **GOOD,
                "managedResources": ["gpu"],
                "retryStrategy": {"backoffLimitCount": 0, "backoffBaseSeconds": 7, "backoffMaxSeconds": 9},
            },
            Terms({"policy": "training", "runDuration": "1h"}, RetryRule(0, 7, 9), ("gpu",)),
            id="config with its own strategy and resources",
        ),
        pytest.param(
            CONFIG,
            {**GOOD, "retryStrategy": {}},
            Terms({"policy": "training", "runDuration": "1h"}, RetryRule(3, 60, 1800)),
            id="Kueue's defaults of the strategy",
        ),
    ],
)
def test_usable_parameters(reference: ParametersReference, spec: dict[str, Any], expected: Terms) -> None:
    assert found(reference, **spec) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({}, {"policy": "training"}, id="none"),
        pytest.param({"other": "x"}, {"policy": "training"}, id="foreign annotation"),
        pytest.param({"provreq.kueue.x-k8s.io/runDuration": "2h"}, {"policy": "training", "runDuration": "2h"}, id="override"),
        pytest.param({"provreq.kueue.x-k8s.io/typo": "x"}, {"policy": "training", "typo": "x"}, id="unknown one is passed on"),
    ],
)
def test_parameters(annotations: dict[str, str], expected: dict[str, str]) -> None:
    assert parameters(BASE, annotations) == expected


def test_override_replaces_the_configs_parameter() -> None:
    """Kueue's own controller then recreates the request without end (reference W3)."""
    base = Terms({"policy": "training", "runDuration": "1h"}, BASE.retry)
    assert parameters(base, {"provreq.kueue.x-k8s.io/runDuration": "2h"})["runDuration"] == "2h"


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        pytest.param({"provreq.kueue.x-k8s.io/policy": "other"}, "the policy|chooses the policy", id="policy is not the user's"),
        pytest.param({"provreq.kueue.x-k8s.io/policy": "training"}, "the policy|chooses the policy", id="not even the same"),
        pytest.param({"provreq.kueue.x-k8s.io/a": "x" * 256}, "longer than 255", id="too long"),
        pytest.param({f"provreq.kueue.x-k8s.io/{n}": "x" for n in range(100)}, "more than 100", id="too many"),
    ],
)
def test_overrides_that_no_request_can_carry(annotations: dict[str, str], words: str) -> None:
    with pytest.raises(WorkloadMistakeError, match=words):
        parameters(BASE, annotations)


NOTE = 'class gang.corral.dev with CapacityPolicy "training" serves it'


@pytest.mark.parametrize(
    ("spec", "parameters", "note"),
    [
        pytest.param({"provisioningClassName": "gang.corral.dev"}, {}, "", id="ours"),
        pytest.param(
            {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"},
            {},
            f"{NOTE}, not check-capacity.autoscaling.x-k8s.io",
            id="another class",
        ),
        pytest.param(
            {"provisioningClassName": "queued-provisioning.gke.io", "parameters": {"maxRunDurationSeconds": "60"}},
            {},
            f"{NOTE} without maxRunDurationSeconds, not queued-provisioning.gke.io",
            id="parameters of another class mean nothing here",
        ),
        pytest.param(
            {
                "provisioningClassName": "gang.corral.dev",
                "parameters": {"runDuration": "1h"},
                "podSetUpdates": {"nodeSelector": [{"key": "k", "valueFromProvisioningClassDetail": "d"}]},
                "podSetMergePolicy": "IdenticalPodTemplates",
            },
            {"runDuration": "1h"},
            "podSetUpdates has no effect; podSetMergePolicy has no effect",
            id="what is not followed",
        ),
    ],
)
def test_a_config_is_taken_as_it_is(spec: dict[str, Any], parameters: dict[str, str], note: str) -> None:
    """As the in-tree controller used it: the policy named `default` serves one that names none."""
    for given, name in (
        (spec, "default"),
        ({**spec, "parameters": {**spec.get("parameters", {}), "policy": "training"}}, "training"),
    ):
        policies = {name: opened(policy(name, limit=1, backoff="10s", maxBackoff="30s"))}
        result = terms(CONFIG, Files(policies.get, {"cfg": config(**given)}.get))
        assert isinstance(result, Terms)
        assert (result.parameters, result.note) == ({**parameters, "policy": name}, note.replace("training", name))


def test_the_policy_that_serves_the_priority_class_says_how_often_to_retry() -> None:
    base = policy(limit=1, backoff="10s", maxBackoff="30s")
    handing = structs.replace(base.spec, by_priority_class=(ByPriorityClass(policy="urgent", names=("high",)),))
    there = {"training": structs.replace(base, spec=handing), "urgent": policy("urgent", limit=9, backoff="20s")}
    for priority_class, limit in (("", 1), ("low", 1), ("high", 9)):
        result = terms(POLICY, Files(there.get, {}.get), priority_class)
        assert isinstance(result, Terms)
        assert (result.parameters, result.retry.limit) == ({"policy": "training"}, limit)
    del there["urgent"]
    lost = terms(POLICY, Files(there.get, {}.get), "high")
    assert isinstance(lost, Unusable)
    assert 'byPriorityClass hands high to CapacityPolicy "urgent", which is not there' in lost.why


@pytest.mark.parametrize(
    ("annotations", "given", "limit"),
    [
        pytest.param({}, {}, 3, id="the rule's"),
        pytest.param({"provreq.kueue.x-k8s.io/retryLimit": "0"}, {}, 0, id="none"),
        pytest.param({"provreq.kueue.x-k8s.io/retryLimit": "9"}, {}, 3, id="never more"),
        pytest.param({"provreq.kueue.x-k8s.io/retryLimit": "two"}, {}, 3, id="no number: the provisioner says so"),
        pytest.param({}, {"retryLimit": "2"}, 2, id="the config's"),
        pytest.param({"provreq.kueue.x-k8s.io/retryLimit": "1"}, {"retryLimit": "2"}, 1, id="the workload's comes first"),
    ],
)
def test_a_workload_may_ask_for_fewer_retries(annotations: dict[str, str], given: dict[str, str], limit: int) -> None:
    assert retry_for(Terms(given, RetryRule(3, 10, 30)), annotations) == RetryRule(limit, 10, 30)
