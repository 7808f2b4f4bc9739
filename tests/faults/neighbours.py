"""What is in the same cluster and is no business of the provisioner's: at the end it must be as it was, version and all.

And requests behind which no quota stands: nothing is ever bought for them.
"""

from provisioner.clouds.base import Order as Machines
from provisioner.state import TAG_BOOKING, TAG_INSTALLATION, TAG_POOL, TAG_PURCHASE
from tests.faults.cloud import CloudTwin
from tests.faults.gangs import TEAM, Order, pod_template, request
from tests.faults.objects import Objects

NODE, REQUEST, THIEF = "foreign", "of-another-class", "thief"
FOREIGN = (("nodes", NODE, ""), ("provisioningrequests", REQUEST, TEAM))


def machine(cloud: CloudTwin) -> None:
    """Another installation in the same account has bought one, and the pool is none of its business."""
    tags = {TAG_INSTALLATION: "there", TAG_BOOKING: "theirs", TAG_PURCHASE: "p0", TAG_POOL: "p"}
    cloud.launch(Machines(token="theirs", shape="h100", zone="east", capacity_type="on-demand", count=1, tags=tags))


def settle_in(objects: Objects) -> None:
    taint = {"key": "others", "effect": "NoSchedule"}
    room = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": "8"}
    labels = {"node.kubernetes.io/instance-type": "h100", "topology.kubernetes.io/zone": "east", "kubernetes.io/hostname": NODE}
    objects.put(
        "nodes",
        {
            "metadata": {"name": NODE, "labels": labels},
            "spec": {"providerID": "other://1", "taints": [taint]},
            "status": {"allocatable": room, "capacity": room},
        },
    )
    other = request(REQUEST, Order("other", 2), "uid-of-another", "uid-of-a-template")
    other["spec"]["provisioningClassName"] = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    objects.put("provisioningrequests", other)
    _steal(objects)


def _steal(objects: Objects) -> None:
    """Somebody who may write requests names a Workload that is there, and holds no quota."""
    spec = {"podSets": [{"name": "main", "count": 2, "template": {"metadata": {}, "spec": {"containers": []}}}]}
    objects.put("workloads", {"metadata": {"name": THIEF, "namespace": TEAM}, "spec": spec, "status": {}})
    workload = objects.get("workloads", THIEF, TEAM)
    assert workload is not None
    uid = workload["metadata"]["uid"]
    objects.put("podtemplates", pod_template(THIEF, THIEF, uid))
    template = objects.get("podtemplates", THIEF, TEAM)
    assert template is not None
    objects.put("provisioningrequests", request(THIEF, Order(THIEF, 2), uid, template["metadata"]["uid"]))
