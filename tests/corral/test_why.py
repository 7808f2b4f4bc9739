"""What `corral why` says of a workload: its state, the numbers, and what to do."""

from typing import Any

import pytest

from tests.corral.cluster import SINCE, Json, check, condition, entry, meta, owner, request, told, waits, workload

pytestmark = pytest.mark.looptime

LLM = owner("Job", "llm", "batch/v1")
WORDS = "needs 6 pods in one rack; largest has room for 4"
CLUSTER = {
    "workloads": [workload("job-llm", LLM)],
    "provisioningrequests": [request("llm-1", waits("TopologyUnsatisfied", WORDS), of="job-llm")],
    "admissionchecks": [check()],
}
TAS_CHECK = check("tas", "kueue.x-k8s.io/provisioning-request", "corral")


def by_kueue(name: str, *conditions: Json, of: str = "job-llm", class_: str = "gang.corral.dev") -> Json:
    """A request as Kueue 0.17.0 makes it."""
    made = request(
        name,
        *conditions,
        labels={"kueue.x-k8s.io/managed": "true"},
        ownerReferences=[owner("Workload", of, "kueue.x-k8s.io/v1beta2")],
    )
    return {**made, "spec": {**made["spec"], "provisioningClassName": class_}}


def booking(name: str, of: str, phase: str, *instances: Json) -> Json:
    bought = {"name": "a", "pool": "h100", "source": "r", "offering": "o", "shape": "p5", "zone": "z", "capacityType": "reserved"}
    spec = {
        "request": {"namespace": "team", "name": of, "uid": f"{of}-uid"},
        "attempt": 1,
        "installation": "x",
        "policy": "default",
        "podSets": [],
        "provisionDeadline": SINCE,
        "bookingSeconds": 900,
        "purchases": [{**bought, "count": 3, "pods": {"main": 1}, "reservationID": "cr-1"}],
    }
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": phase, "instances": list(instances)}}


def machine(name: str, state: str, message: str = "") -> Json:
    return {"id": name, "purchase": "a", "state": state, "message": message}


# --- requests and checks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["job/llm", "workload/job-llm", "provreq/llm-1"])
async def test_every_way_to_name_it(target: str) -> None:
    first, to_do = await told(CLUSTER, target)
    assert first.startswith("WAITING TopologyUnsatisfied ")
    assert first.endswith(f": {WORDS}")
    assert to_do == "  to do: wait until one domain has room for all, ask for fewer pods or for a wider level"


CONFIG: Json = {"metadata": {"name": "corral"}, "spec": {"provisioningClassName": "gang.corral.dev"}}
TAS = {
    "workloads": [workload("job-llm", LLM, checks=(entry("tas"),))],
    "admissionchecks": [TAS_CHECK],
    "provisioningrequestconfigs": [CONFIG],
    "provisioningrequests": [by_kueue("job-llm-tas-1", waits("ReservationMismatch", "3 of 8 pods fit now"))],
}


@pytest.mark.parametrize("target", ["job/llm", "provreq/job-llm-tas-1"])
@pytest.mark.parametrize("closed", [(), ("provisioningrequestconfigs",)], ids=["all", "no right to read configs"])
async def test_a_request_of_kueues_own_check(target: str, closed: tuple[str, ...]) -> None:
    first, *_ = await told(TAS, target, *closed)
    assert first.startswith("WAITING ReservationMismatch ")
    assert first.endswith(": 3 of 8 pods fit now")


async def test_kueues_own_check_before_it_has_asked() -> None:
    first, *_ = await told({**TAS, "provisioningrequests": []}, "job/llm")
    assert "its ProvisioningRequest is still to be written" in first


async def test_kueues_own_check_of_another_class_is_none_of_ours() -> None:
    other = [{**CONFIG, "spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io"}}]
    requests = [by_kueue("job-llm-tas-1", class_="check-capacity.autoscaling.x-k8s.io")]
    [line] = await told({**TAS, "provisioningrequestconfigs": other, "provisioningrequests": requests}, "job/llm")
    assert line.startswith("WAITING, not for capacity: check tas is Pending")


TWO = {
    **CLUSTER,
    "workloads": [workload("job-llm", LLM, checks=(entry("gpu"), entry("cpu"), entry("budget", message="asks the boss")))],
    "admissionchecks": [check("gpu"), check("cpu"), check("budget", "example.com/money")],
    "provisioningrequests": [
        request("llm-gpu", waits("TopologyUnsatisfied", WORDS), of="job-llm", for_="gpu"),
        request("llm-cpu", waits("GangIncomplete", "2 of 6 pods can be had"), of="job-llm", for_="cpu"),
        request("llm-old", condition("Failed", reason="GangIncomplete"), of="job-llm", for_="cpu")
        | {"metadata": request("llm-old", of="job-llm", for_="cpu")["metadata"] | {"creationTimestamp": "2026-08-01T00:00:00Z"}},
    ],
}


async def test_several_checks_are_told_each_with_its_newest_request() -> None:
    lines = [line for line in await told(TWO, "job/llm") if "to do" not in line]
    assert [line.partition(":")[2] for line in lines[:2]] == [f" {WORDS}", " 2 of 6 pods can be had"]
    assert ["(check gpu)" in lines[0], "(check cpu)" in lines[1]] == [True, True]
    assert lines[2:] == ["  waits for check budget as well, which is not Corral's: Pending: asks the boss"]


async def test_a_request_of_an_earlier_attempt() -> None:
    """The workload is told as it stands now, and what became of the request that was named."""
    failed = condition("Failed", reason="GangIncomplete", message="2 of 6")
    past = request("llm-0", failed, of="job-llm", for_="cpu")
    past["metadata"]["creationTimestamp"] = "2026-08-01T00:00:00Z"
    first, *_, last = await told({**TWO, "provisioningrequests": [past, *TWO["provisioningrequests"]]}, "provreq/llm-0")
    assert first.startswith("WAITING TopologyUnsatisfied ")
    assert last == "  provreq/llm-0 itself is of an earlier attempt: GangIncomplete: 2 of 6"


async def test_a_request_of_kueues_check_for_another_class() -> None:
    requests = [by_kueue("job-llm-tas-1", class_="queued.gke.io")]
    *_, last = await told({**TAS, "provisioningrequestconfigs": [], "provisioningrequests": requests}, "provreq/job-llm-tas-1")
    assert last == "  provreq/job-llm-tas-1 itself is of class queued.gke.io, not Corral's"


async def test_a_check_that_is_ready_beside_one_that_waits() -> None:
    ready = workload("job-llm", LLM, checks=(entry("gpu", "Ready", "all 3 machines are ready"), entry("cpu")))
    held = [booking("bk-1", "llm-gpu", "Provisioned", machine("m", "Ready"))]
    lines = await told({**TWO, "workloads": [ready], "bookings": held}, "job/llm")
    assert lines[0].startswith("WAITING GangIncomplete ")
    assert lines[2:4] == [
        "  check gpu is ready: all 3 machines are ready",
        "  booking bk-1: Provisioned; 0 nodes that were there, 1 of 3 machines bought; 0 $/h",
    ]


async def test_all_that_waits_under_one_name_is_told_what_waits_first() -> None:
    serve = owner("LeaderWorkerSet", "serve", "leaderworkerset.x-k8s.io/v1")
    runs = workload("serve-0", serve, conditions=[condition("QuotaReserved"), condition("Admitted")])
    lines = await told({**CLUSTER, "workloads": [runs, workload("serve-1", serve)]}, "lws/serve")
    assert [line for line in lines if line.startswith("workload/")] == ["workload/serve-1", "workload/serve-0"]
    assert [line.split()[0] for line in lines if line.startswith(("WAITING", "RUNNING"))] == ["WAITING", "RUNNING"]


async def test_the_older_slice_of_an_elastic_job_that_is_over_is_left_out() -> None:
    over = workload("job-old", LLM, conditions=[condition("Finished", reason="WorkloadSliceReplaced")])
    lines = await told({**CLUSTER, "workloads": [over, *CLUSTER["workloads"]]}, "job/llm")
    assert lines[0].startswith("WAITING TopologyUnsatisfied ")


# --- bare requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "first", "more"),
    [
        pytest.param((), "WAITING {age}: the provisioner has not answered yet: is corral-provisioner running?", [], id="new"),
        pytest.param(
            (condition("Accepted", "False", reason="MissingPodTemplates", message="create it"),),
            "WAITING MissingPodTemplates {age}: create it",
            [],
            id="not accepted",
        ),
        pytest.param((condition("Accepted"),), "WAITING {age}: capacity is being planned", [], id="accepted"),
        pytest.param(
            (condition("Accepted"), waits("GangIncomplete", "2 of 6; would fit: 2 pods | tomorrow; gives up at 10:40Z")),
            "WAITING GangIncomplete {age}: 2 of 6",
            [
                "would fit: 2 pods | tomorrow",
                "gives up at 10:40Z",
                "to do: wait: it starts by itself once all of its pods can be had; or take what stands after `would fit`",
            ],
            id="waits",
        ),
        pytest.param(
            (condition("Accepted"), condition("Provisioned", message="all 3 machines are ready")),
            "PROVISIONED {age}: all 3 machines are ready",
            [],
            id="provisioned",
        ),
        pytest.param(
            (condition("Failed", reason="NoQuota", message="no Workload stands behind this request"),),
            "FAILED NoQuota {age}: no Workload stands behind this request",
            ["no request is tried twice: make a new one"],
            id="failed",
        ),
        pytest.param(
            (condition("Provisioned"), condition("BookingExpired", message="no pod came in time")),
            "FAILED BookingExpired {age}: no pod came in time",
            ["no request is tried twice: make a new one"],
            id="expired",
        ),
    ],
)
async def test_a_bare_request(conditions: tuple[Json, ...], first: str, more: list[str]) -> None:
    lines = await told({"provisioningrequests": [request("mine", *conditions)]}, "provreq/mine")
    assert lines == [first.format(age=_age(lines[0])), *(f"  {line}" for line in more)]


def _age(line: str) -> str:
    return line.split(":")[0].split()[-1]


async def test_a_bare_request_with_its_booking() -> None:
    """What each machine lacks is counted: three o'clock in the morning is no time to read YAML."""
    waiting = request("mine", waits("CapacityProvisioning", "1 of 3 machines ready; deadline 10:40Z"))
    machines = (machine("a", "Ready"), machine("b", "Joined", "not Ready"), machine("c", "Joined", "not Ready"))
    held = [booking("bk-1", "mine", "Joining", *machines)]
    lines = await told({"provisioningrequests": [waiting], "bookings": held}, "provreq/mine")
    assert lines[1:] == [
        "  deadline 10:40Z",
        "  to do: wait: all is booked or ordered; what a machine still lacks stands below",
        "  booking bk-1: Joining; 0 nodes that were there, 3 of 3 machines bought; 0 $/h",
        "    3 x p5 in z from cr-1 (h100)",
        "    2 of the machines: joined: not Ready",
    ]


async def test_a_request_of_another_class_is_not_ours() -> None:
    made = request("mine")
    made["spec"]["provisioningClassName"] = "check-capacity.autoscaling.x-k8s.io"
    [line] = await told({"provisioningrequests": [made]}, "provreq/mine")
    assert line == "UNKNOWN provreq/mine: its class is check-capacity.autoscaling.x-k8s.io, Corral serves gang.corral.dev"


async def test_a_request_that_outlived_its_workload() -> None:
    left = [request("llm-1", condition("Accepted"), of="job-llm")]
    lines = await told({"provisioningrequests": left}, "provreq/llm-1")
    assert lines[1:] == ["  Workload job-llm, for which it was made, is not there any more"]


# --- what to do -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "message", "to_do"),
    [
        pytest.param("CapacityProvisioning", "3 of 8 machines ready", "wait: all is booked or ordered", id="provisioning"),
        pytest.param("TopologyUnsatisfied", WORDS, "wait until one domain has room", id="topology"),
        pytest.param("ReservationMismatch", "8 of cr-1", "let the job accept the prepaid machines", id="mismatch"),
        pytest.param("GangIncomplete", "2 of 6", "wait: it starts by itself", id="gang"),
        pytest.param("GangIncomplete", "2 of 6; it would not fit even if all were free", "waiting can't help", id="hopeless"),
    ],
)
async def test_each_kind_of_waiting_says_what_to_do(reason: str, message: str, to_do: str) -> None:
    waiting = [request("llm-1", waits(reason, message), of="job-llm")]
    lines = await told({**CLUSTER, "provisioningrequests": waiting}, "job/llm")
    assert lines[0].startswith(f"WAITING {reason} ")
    assert lines[-1].startswith(f"  to do: {to_do}")


def _quota(gpus: int, taken: int, cohort: str = "", **workload_: Any) -> dict[str, list[Json]]:
    """A workload of two pods with 8 GPUs each in a queue of one flavor."""
    container = {"name": "c", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
    pods = {"name": "main", "count": 2, "template": {"spec": {"containers": [container]}}, **workload_}
    status = {"conditions": [condition("QuotaReserved", "False", reason="Pending", message="couldn't assign flavors")]}
    quotas = [{"name": "nvidia.com/gpu", "nominalQuota": gpus}]
    spec = {"resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "f", "resources": quotas}]}]}
    used = [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "total": taken}]}]
    return {
        **CLUSTER,
        "workloads": [{**workload("job-llm", LLM, **status), "spec": {"queueName": "q", "podSets": [pods]}}],
        "localqueues": [{"metadata": meta("q"), "spec": {"clusterQueue": "cq"}}],
        "clusterqueues": [
            {"metadata": {"name": "cq"}, "spec": {**spec, "cohortName": cohort}, "status": {"flavorsReservation": used}}
        ],
    }


@pytest.mark.parametrize(
    ("cluster", "numbers", "to_do"),
    [
        pytest.param(_quota(32, 24), "32 = 24 reserved + 8 free; needs 16   <- short", "wait until others give", id="in use"),
        pytest.param(
            _quota(8, 0), "8 = 0 reserved + 8 free; needs 16   <- more than there is at all", "raise the quota", id="never"
        ),
        pytest.param(_quota(8, 0, "all"), "needs 16   <- short", "wait until others give quota back (cohort all", id="cohort"),
        pytest.param(_quota(8, 0, minCount=1), "needs 16   <- short", "wait until others give", id="may shrink"),
    ],
)
async def test_quota_that_is_short(cluster: dict[str, list[Json]], numbers: str, to_do: str) -> None:
    first, counted, remedy = await told(cluster, "job/llm")
    assert first.startswith("WAITING QuotaInsufficient ")
    assert counted.startswith("  cq/f: nvidia.com/gpu ")
    assert counted.endswith(numbers)
    assert remedy.startswith(f"  to do: {to_do}")


async def test_a_queue_that_is_shut_is_no_lack_of_quota() -> None:
    cluster = _quota(32, 0)
    shut = condition("QuotaReserved", "False", reason="Inadmissible", message="ClusterQueue cq is inactive")
    cluster["workloads"][0]["status"]["conditions"] = [shut]
    missing = condition("Active", "False", reason="AdmissionCheckInactive", message="can't admit: capacity")
    cluster["clusterqueues"][0]["status"]["conditions"] = [missing]
    first, why, to_do = await told(cluster, "job/llm")
    assert first.startswith("WAITING, not for capacity ")
    assert first.endswith(": ClusterQueue cq is inactive")
    assert why == "  ClusterQueue cq is not active: AdmissionCheckInactive: can't admit: capacity"
    assert to_do.startswith("  to do: correct what is named")


async def test_the_next_attempt_says_why_the_last_one_failed() -> None:
    words = "Attempt 1 of 3 failed: GangIncomplete: 2 of 6; next try at 10:40Z, no quota is held until then"
    between = workload(
        "job-llm",
        LLM,
        checks=(entry(message=words),),
        conditions=[condition("QuotaReserved", "False"), condition("Evicted", message="a check is false")],
        requeueState={"requeueAt": "2030-01-01T10:40:00Z"},
    )
    first, to_do = await told({**CLUSTER, "workloads": [between]}, "job/llm")
    assert first == f"WAITING for its next attempt at 2030-01-01 10:40Z: {words}"
    assert to_do.startswith("  to do: nothing; it holds no quota meanwhile")


async def test_the_next_attempt_for_kueues_own_check() -> None:
    """Kueue 0.17.0 resets the words of its check when it evicts, and leaves the request."""
    status: Json = {"conditions": [condition("QuotaReserved", "False"), condition("Evicted", message="a check is false")]}
    between = workload("job-llm", LLM, checks=(entry("tas"),), requeueState={"requeueAt": "2030-01-01T10:40:00Z"}, **status)
    left = [by_kueue("job-llm-tas-1", condition("Failed", reason="GangIncomplete", message="0 of 2"))]
    first, *_ = await told({**TAS, "workloads": [between], "provisioningrequests": left}, "job/llm")
    assert first == "WAITING for its next attempt at 2030-01-01 10:40Z: GangIncomplete: 0 of 2"


async def test_one_that_is_being_stopped() -> None:
    stops = workload("job-llm", LLM, conditions=[condition("QuotaReserved"), condition("Evicted", message="Preempted by x")])
    [first] = await told({**CLUSTER, "workloads": [stops], "provisioningrequests": []}, "job/llm")
    assert first.startswith("WAITING, not for capacity: it is being stopped, ")
    assert first.endswith(": Preempted by x")


async def test_a_workload_without_a_job_that_was_evicted() -> None:
    """Real: it holds its quota for ever (Kueue 0.17.0)."""
    failed = entry(message="Attempt 1 of 2 failed: GangIncomplete: 0 of 2")
    said = [condition("QuotaReserved"), condition("Evicted", reason="AdmissionCheck", message="a check is false")]
    lines = await told({**CLUSTER, "workloads": [workload("by-hand", checks=(failed,), conditions=said)]}, "workload/by-hand")
    assert lines[1] == "  check capacity is Pending: Attempt 1 of 2 failed: GangIncomplete: 0 of 2"
    assert lines[2].startswith("  to do: delete it: no job stands behind it")


async def test_a_job_that_runs_without_us() -> None:
    runs = workload("job-llm", LLM, checks=(), conditions=[condition("QuotaReserved"), condition("Admitted")])
    [first] = await told({**CLUSTER, "workloads": [runs], "provisioningrequests": []}, "job/llm")
    assert first.endswith(": admitted, and no check of Corral's is on it")


@pytest.mark.parametrize(
    ("reason", "word", "to_do"),
    [
        pytest.param("DeactivatedDueToAdmissionCheck", "REJECTED", "correct what is named, then try again:", id="by a check"),
        pytest.param("Deactivated", "DEACTIVATED", "try again:", id="by its user"),
        pytest.param("AdmissionCheck", "DEACTIVATED", "try again:", id="by its user, during a backoff"),
    ],
)
async def test_who_deactivated_it(reason: str, word: str, to_do: str) -> None:
    stopped = workload("job-llm", LLM, conditions=[condition("Evicted", reason=reason, message="why")])
    stopped["spec"]["active"] = False
    first, then, *_ = await told({**CLUSTER, "workloads": [stopped]}, "job/llm")
    assert first.startswith(f"{word} ")
    assert then == f"  to do: {to_do}"


# --- rights ---------------------------------------------------------------------------------------------------------------


async def test_rights_in_one_namespace_alone_give_the_reason_all_the_same() -> None:
    [first, _, last] = await told(CLUSTER, "job/llm", "admissionchecks", "clusterqueues", "bookings", "events", "workloads/*")
    assert first.startswith("WAITING TopologyUnsatisfied ")
    assert last.startswith("  left out, for you have no right to read them: admissionchecks, bookings (")


# --- what there is --------------------------------------------------------------------------------------------------------


def pool(name: str, *reservations: str) -> Json:
    used = {"source": "r", "shape": "p5", "zone": "a", "total": 8, "booked": 0, "outside": 8, "quarantined": 0, "free": 0}
    spec = {"provider": {"simulated": {"endpoint": "http://cloud"}}}
    return {"metadata": {"name": name}, "spec": spec, "status": {"reservations": [{"id": one, **used} for one in reservations]}}


def policy(name: str, *pools: str, **more: Any) -> Json:
    return {"metadata": {"name": name}, "spec": {"pools": list(pools), **more}}


POOLS = [pool("h100", "cr-1"), pool("a100", "cr-2")]
FULL = "8 = 8 outside + 0 free"


@pytest.mark.parametrize(
    ("message", "policies", "lines"),
    [
        pytest.param(
            "0 of 2 pods can be had now",
            [policy("default", "h100")],
            [f"  pool h100: cr-1: {FULL}", "  who holds what: corral why pool/h100"],
            id="those of its policy",
        ),
        pytest.param(
            f"1 of 2 pods can be had now; cr-1: {FULL}",
            [policy("default", "h100")],
            ["  who holds what: corral why pool/h100"],
            id="said already",
        ),
        pytest.param(
            "0 of 2 pods can be had now",
            [policy("default", "h100", byPriorityClass=[{"policy": "urgent", "names": ["high"]}]), policy("urgent", "a100")],
            [f"  pool a100: cr-2: {FULL}", "  who holds what: corral why pool/a100"],
            id="of the policy that serves its priority class",
        ),
        pytest.param(
            "0 of 2 pods can be had now",
            [],
            [
                f"  pool h100: cr-1: {FULL}",
                f"  pool a100: cr-2: {FULL}",
                "  who holds what: corral why pool/h100 | corral why pool/a100",
            ],
            id="all where the policy is not known",
        ),
    ],
)
async def test_the_reservations_that_it_may_use(message: str, policies: list[Json], lines: list[str]) -> None:
    asks = workload("job-llm", LLM)
    asks["spec"]["priorityClassRef"] = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    waiting = request("llm-1", waits("GangIncomplete", message), of="job-llm")
    objects = {**CLUSTER, "workloads": [asks], "provisioningrequests": [waiting]}
    assert (await told({**objects, "capacitypools": POOLS, "capacitypolicies": policies}, "job/llm"))[2:] == lines


async def test_the_reservations_that_a_bare_request_may_use() -> None:
    waiting = request("mine", waits("GangIncomplete", "0 of 2 pods can be had now"))
    objects = {"provisioningrequests": [waiting], "capacitypools": POOLS, "capacitypolicies": [policy("default", "a100")]}
    assert (await told(objects, "provreq/mine"))[2] == f"  pool a100: cr-2: {FULL}"
