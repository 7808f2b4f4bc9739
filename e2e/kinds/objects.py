"""One object of each kind: what a user writes, the pod sets that Kueue is to make of it, and its pod templates afterwards.

The operators don't run here. What one would read is in the object, so a test looks there; pods that an operator would make from
it carry the same.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kube.resources import Kind

Json = dict[str, Any]
PodSpecs = Callable[[Json], Mapping[str, Json]]
QUEUE = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class Case:
    """`spec` of one object of `kind`; `pod_sets` are names and counts as Kueue makes them; `specs` finds in the object, by pod
    set, the pod spec (or what the operator lays over it) that carries the updates; `running` whether the object is let go.
    """

    kind: Kind
    spec: Json
    pod_sets: Mapping[str, int]
    specs: PodSpecs
    running: Callable[[Json], bool] = lambda found: not found["spec"].get("suspend")
    before: tuple[Json, ...] = ()  # objects that must be there first

    def made(self, name: str, namespace: str) -> list[Json]:
        """What must be there before, and the object, in the queue that every test calls `queue`."""
        meta = {"name": name, "labels": {QUEUE: "queue"}}
        own = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": meta, "spec": self.spec}
        return [{**each, "metadata": {**each["metadata"], "namespace": namespace}} for each in (*self.before, own)]


def template(gpus: int = 8, **more: Any) -> Json:
    """A pod template that asks for a whole machine of eight GPUs, or a part of one."""
    amounts = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    containers = [{"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]
    return {"spec": {"containers": containers, "restartPolicy": "Never", **more}}


def _at(*path: str | int) -> Callable[[Json], Json]:
    def look(found: Any) -> Json:
        for step in path:
            found = found[step]
        return dict(found)

    return look


def _specs(**paths: tuple[str | int, ...]) -> PodSpecs:
    """By pod set, each at its path in the object's spec; `_` in a keyword stands for `-` in the name."""
    return lambda found: {name.replace("_", "-"): _at(*path)(found["spec"]) for name, path in paths.items()}


def _kubeflow(plural: str, kind: str, field: str, *roles: str) -> Case:
    counts = {role: 3 if role == "Worker" else 1 for role in roles}
    replicas = {role: {"replicas": count, "template": _named(kind)} for role, count in counts.items()}
    paths: dict[str, tuple[str | int, ...]] = {role.lower(): (field, role, "template", "spec") for role in roles}
    return Case(
        Kind("kubeflow.org", "v1", plural, kind),
        {field: replicas},
        {role.lower(): count for role, count in counts.items()},
        _specs(**paths),
        lambda found: not found["spec"]["runPolicy"]["suspend"],
    )


def _named(kind: str) -> Json:
    """Each of the training operator's kinds wants its container called by a name of its own."""
    made = template()
    made["spec"]["containers"][0]["name"] = {"PyTorchJob": "pytorch", "TFJob": "tensorflow", "JAXJob": "jax"}.get(
        kind, kind.removesuffix("Job").lower()
    )
    del made["spec"]["restartPolicy"]
    return made


def _replicated(name: str, replicas: int, pods: int, **more: Any) -> Json:
    job = {"spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template(**more)}}
    return {"name": name, "replicas": replicas, "template": job}


def _ray(workers: Mapping[str, int]) -> Json:
    def ray(gpus: int) -> Json:
        made = template(gpus)
        del made["spec"]["restartPolicy"]
        return made

    groups = [
        {"groupName": name, "replicas": count, "minReplicas": 0, "maxReplicas": 8, "rayStartParams": {}, "template": ray(8)}
        for name, count in workers.items()
    ]
    return {"rayVersion": "2.41.0", "headGroupSpec": {"rayStartParams": {}, "template": ray(0)}, "workerGroupSpecs": groups}


_RAY_PATHS: dict[str, tuple[str | int, ...]] = {
    "head": ("headGroupSpec", "template", "spec"),
    "workers": ("workerGroupSpecs", 0, "template", "spec"),
}
_ROOT = "rayClusterSpec"

JOB = Case(
    Kind("batch", "v1", "jobs", "Job"),
    {"parallelism": 4, "completions": 4, "template": template()},
    {"main": 4},
    _specs(main=("template", "spec")),
)
JOB_SET = Case(
    Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    {"replicatedJobs": [_replicated("driver", 1, 1, gpus=0), _replicated("workers", 2, 3)]},
    {"driver": 1, "workers": 6},
    _specs(
        driver=("replicatedJobs", 0, "template", "spec", "template", "spec"),
        workers=("replicatedJobs", 1, "template", "spec", "template", "spec"),
    ),
)
RAY_CLUSTER = Case(
    Kind("ray.io", "v1", "rayclusters", "RayCluster"), _ray({"workers": 3}), {"head": 1, "workers": 3}, _specs(**_RAY_PATHS)
)
RAY_JOB = Case(
    Kind("ray.io", "v1", "rayjobs", "RayJob"),
    {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        _ROOT: _ray({"workers": 3}),
        "submitterPodTemplate": template(0),
    },
    {"head": 1, "workers": 3, "submitter": 1},
    _specs(
        head=(_ROOT, *_RAY_PATHS["head"]), workers=(_ROOT, *_RAY_PATHS["workers"]), submitter=("submitterPodTemplate", "spec")
    ),
)
RAY_SERVICE = Case(
    Kind("ray.io", "v1", "rayservices", "RayService"),
    {"serveConfigV2": "applications: []", "rayClusterConfig": _ray({"workers": 3})},
    {"head": 1, "workers": 3},
    _specs(head=("rayClusterConfig", *_RAY_PATHS["head"]), workers=("rayClusterConfig", *_RAY_PATHS["workers"])),
    lambda found: not found["spec"]["rayClusterConfig"].get("suspend"),
)
MPI_JOB = Case(
    Kind("kubeflow.org", "v2beta1", "mpijobs", "MPIJob"),
    {
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": template(0)},
            "Worker": {"replicas": 3, "template": template()},
        }
    },
    {"launcher": 1, "worker": 3},
    _specs(
        launcher=("mpiReplicaSpecs", "Launcher", "template", "spec"), worker=("mpiReplicaSpecs", "Worker", "template", "spec")
    ),
    lambda found: not found["spec"]["runPolicy"]["suspend"],
)
_RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "runtime", "labels": {"trainer.kubeflow.org/framework": "torch"}},
    "spec": {
        "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "replicas": 1,
                        "template": {
                            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                            "spec": {"template": {"spec": {"containers": [{"name": "node", "image": "x"}]}}},
                        },
                    }
                ]
            }
        },
    },
}


def _train_job_specs(found: Json) -> Mapping[str, Json]:
    """Kueue leaves a patch of its own, which the trainer lays over the templates of the runtime."""
    patch = next(each for each in found["spec"]["runtimePatches"] if each["manager"] == "kueue.x-k8s.io/manager")
    jobs = patch["trainingRuntimeSpec"]["template"]["spec"].get("replicatedJobs") or ()
    return {each["name"]: each["template"]["spec"]["template"]["spec"] for each in jobs}


_AMOUNTS = {"cpu": "1", "nvidia.com/gpu": "8"}
TRAIN_JOB = Case(
    Kind("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob"),
    {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "runtime"},
        "trainer": {"numNodes": 4, "resourcesPerNode": {"requests": _AMOUNTS, "limits": _AMOUNTS}},
    },
    {"node": 4},
    _train_job_specs,
    before=(_RUNTIME,),
)


def _wrapped(found: Json) -> Mapping[str, Json]:
    """The AppWrapper's controller lays these over the pods of the component."""
    return {f"{found['metadata']['name']}-0": found["spec"]["components"][0]["podSetInfos"][0]}


APP_WRAPPER = Case(
    Kind("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper"),
    {
        "components": [
            {
                "template": {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": {"name": "wrapped"},
                    "spec": {"parallelism": 4, "completions": 4, "template": template()},
                }
            }
        ]
    },
    {"gang-0": 4},
    _wrapped,
)
PYTORCH_JOB = _kubeflow("pytorchjobs", "PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker")
TF_JOB = _kubeflow("tfjobs", "TFJob", "tfReplicaSpecs", "Chief", "PS", "Worker")
XGBOOST_JOB = _kubeflow("xgboostjobs", "XGBoostJob", "xgbReplicaSpecs", "Master", "Worker")
PADDLE_JOB = _kubeflow("paddlejobs", "PaddleJob", "paddleReplicaSpecs", "Master", "Worker")
JAX_JOB = _kubeflow("jaxjobs", "JAXJob", "jaxReplicaSpecs", "Worker")

WHOLE = (
    JOB,
    JOB_SET,
    RAY_CLUSTER,
    RAY_JOB,
    RAY_SERVICE,
    MPI_JOB,
    PYTORCH_JOB,
    TF_JOB,
    XGBOOST_JOB,
    PADDLE_JOB,
    JAX_JOB,
    TRAIN_JOB,
    APP_WRAPPER,
)
"""Kinds with one object that is suspended as a whole until its Workload is admitted."""


# --- kinds whose pods wait themselves, each held by a scheduling gate -----------------------------------------------------


def pod(
    name: str,
    gpus: int = 8,
    *,
    group: str = "",
    size: int = 0,
    labels: Mapping[str, str] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Json:
    """A pod of a user's own, annotated by `notes`; `group` and `size` make it one of so many."""
    member = {"kueue.x-k8s.io/pod-group-name": group} if group else {}
    counted = {"kueue.x-k8s.io/pod-group-total-count": str(size)} if group else {}
    meta = {"name": name, "labels": {QUEUE: "queue", **member, **(labels or {})}, "annotations": {**counted, **(notes or {})}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **template(gpus)}


SERVE = {"app": "serve"}


def replicated(kind: str, replicas: int, annotations: Mapping[str, str] | None = None) -> Json:
    """A StatefulSet or a Deployment; the annotations are those of its pod template."""
    made = template()
    del made["spec"]["restartPolicy"]
    meta = {"labels": SERVE, "annotations": dict(annotations or {})}
    spec = {"replicas": replicas, "selector": {"matchLabels": SERVE}, "template": {"metadata": meta, **made}}
    if kind == "StatefulSet":
        spec |= {"serviceName": "serve", "podManagementPolicy": "Parallel"}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "serve", "labels": {QUEUE: "queue"}}, "spec": spec}


LWS = Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
_LWS = "leaderworkerset.sigs.k8s.io/"


def leader_worker_set(size: int, annotations: Mapping[str, str] | None = None) -> Json:
    """One group of a leader without GPUs and `size - 1` workers; the annotations are those of the worker template."""
    leader, worker = template(0), {**template(), "metadata": {"annotations": dict(annotations or {}), "labels": SERVE}}
    for each in (leader, worker):
        del each["spec"]["restartPolicy"]
    templates = {"size": size, "leaderTemplate": leader, "workerTemplate": worker}
    spec = {"replicas": 1, "rolloutStrategy": {"type": "RollingUpdate"}, "leaderWorkerTemplate": templates}
    meta = {"name": "serve", "labels": {QUEUE: "queue"}}
    return {"apiVersion": LWS.api_version, "kind": LWS.kind, "metadata": meta, "spec": spec}


def pods_of_leader_worker_set(found: Json) -> list[Json]:
    """The pods of its first group as its operator makes them: templates as they are, its labels, the leader's name on workers."""
    name, parts = found["metadata"]["name"], found["spec"]["leaderWorkerTemplate"]
    return [
        _lws_pod(name, index, parts["workerTemplate"] if index else parts["leaderTemplate"]) for index in range(parts["size"])
    ]


def _lws_pod(name: str, index: int, found: Json) -> Json:
    leader = f"{name}-0"
    meta = found.get("metadata") or {}
    labels = {f"{_LWS}name": name, f"{_LWS}group-index": "0", f"{_LWS}worker-index": str(index), f"{_LWS}group-key": "k"}
    notes = {**(meta.get("annotations") or {}), f"{_LWS}size": "3"} | ({f"{_LWS}leader-name": leader} if index else {})
    made = {"name": f"{leader}-{index}" if index else leader, "labels": {**(meta.get("labels") or {}), **labels}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**made, "annotations": notes}, "spec": found["spec"]}


# --- variants of kinds ----------------------------------------------------------------------------------------------------


def replicated_jobs(pods: Mapping[str, int], selectors: Mapping[str, Mapping[str, str]] | None = None) -> Case:
    """A JobSet of replicated jobs with equal templates but for their node selectors."""
    chosen = {name: {"nodeSelector": dict(selector)} for name, selector in (selectors or {}).items()}
    jobs = [_replicated(name, 1, count, **chosen.get(name, {})) for name, count in pods.items()]
    return replace(JOB_SET, spec={"replicatedJobs": jobs}, pod_sets=pods)


def workers_of_ray(workers: Mapping[str, int], **more: Any) -> Case:
    """A RayCluster of a head without GPUs and these groups."""
    return replace(RAY_CLUSTER, spec={**_ray(workers), **more}, pod_sets={"head": 1, **workers})
