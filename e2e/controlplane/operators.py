"""The CRDs of the operators whose kinds Kueue admits, in the versions that the pinned Kueue requires.

The operators themselves need containers and don't run here; Kueue, and whoever plays an operator, needs only their objects.
"""

from pathlib import Path

from e2e.controlplane import build

_KUBEFLOW = ("pytorchjobs", "tfjobs", "xgboostjobs", "jaxjobs", "paddlejobs")
_CRDS = {  # module: files; MPIJob is the MPI operator's, which the training operator's older one would replace
    "sigs.k8s.io/jobset": ("config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",),
    "sigs.k8s.io/lws": ("config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml",),
    "github.com/ray-project/kuberay/ray-operator": tuple(
        f"config/crd/bases/ray.io_{kind}.yaml" for kind in ("rayclusters", "rayjobs", "rayservices")
    ),
    "github.com/kubeflow/mpi-operator": ("manifests/base/kubeflow.org_mpijobs.yaml",),
    "github.com/kubeflow/training-operator": tuple(f"manifests/base/crds/kubeflow.org_{kind}.yaml" for kind in _KUBEFLOW),
    "github.com/kubeflow/trainer/v2": tuple(
        f"manifests/base/crds/trainer.kubeflow.org_{kind}.yaml"
        for kind in ("trainjobs", "trainingruntimes", "clustertrainingruntimes")
    ),
    "github.com/project-codeflare/appwrapper": ("config/crd/bases/workload.codeflare.dev_appwrappers.yaml",),
}
FRAMEWORKS = (
    "batch/job",
    "pod",
    "deployment",
    "statefulset",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "jobset.x-k8s.io/jobset",
    "ray.io/rayjob",
    "ray.io/raycluster",
    "ray.io/rayservice",
    "kubeflow.org/mpijob",
    "kubeflow.org/pytorchjob",
    "kubeflow.org/tfjob",
    "kubeflow.org/xgboostjob",
    "kubeflow.org/jaxjob",
    "kubeflow.org/paddlejob",
    "trainer.kubeflow.org/trainjob",
    "workload.codeflare.dev/appwrapper",
)
"""Every integration that Kueue's own default configuration names."""


def files() -> list[Path]:
    """The CRD files, in Go's module cache; raises BuildError when a module can't be had."""
    folders = zip(build.modules(*_CRDS), _CRDS.values(), strict=True)
    return [folder / file for folder, names in folders for file in names]
