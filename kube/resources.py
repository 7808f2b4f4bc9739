"""Where each kind is found at the API server."""

from typing import NamedTuple

from kube import autoscaling, kueue, ours


class Kind(NamedTuple):
    """Group ("" for core), version, plural, kind and whether it lives in namespaces, in the order that a REST client wants."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = Kind("", "v1", "pods", "Pod")
POD_TEMPLATES = Kind("", "v1", "podtemplates", "PodTemplate")
NODES = Kind("", "v1", "nodes", "Node", False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap")
PERSISTENT_VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", False)
PERSISTENT_VOLUME_CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Kind("batch", "v1", "jobs", "Job")
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS = Kind("events.k8s.io", "v1", "events", "Event")
JOB_SETS = Kind("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
LEADER_WORKER_SETS = Kind("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet")
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False)
STORAGE_CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_DRIVERS = Kind("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", False)
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
CUSTOM_RESOURCE_DEFINITIONS = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False)

PROVISIONING_REQUESTS = Kind(autoscaling.GROUP, autoscaling.VERSION, "provisioningrequests", "ProvisioningRequest")

WORKLOADS = Kind(kueue.GROUP, kueue.VERSION, "workloads", "Workload")
ADMISSION_CHECKS = Kind(kueue.GROUP, kueue.VERSION, "admissionchecks", "AdmissionCheck", False)
CLUSTER_QUEUES = Kind(kueue.GROUP, kueue.VERSION, "clusterqueues", "ClusterQueue", False)
LOCAL_QUEUES = Kind(kueue.GROUP, kueue.VERSION, "localqueues", "LocalQueue")
RESOURCE_FLAVORS = Kind(kueue.GROUP, kueue.VERSION, "resourceflavors", "ResourceFlavor", False)
TOPOLOGIES = Kind(kueue.GROUP, kueue.VERSION, "topologies", "Topology", False)
WORKLOAD_PRIORITY_CLASSES = Kind(kueue.GROUP, kueue.VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", False)
PROVISIONING_REQUEST_CONFIGS = Kind(kueue.GROUP, kueue.VERSION, "provisioningrequestconfigs", "ProvisioningRequestConfig", False)

CAPACITY_POOLS = Kind(ours.GROUP, ours.VERSION, "capacitypools", "CapacityPool", False)
CAPACITY_POLICIES = Kind(ours.GROUP, ours.VERSION, "capacitypolicies", "CapacityPolicy", False)
BOOKINGS = Kind(ours.GROUP, ours.VERSION, "bookings", "Booking", False)
