"""A queue that is put on hold and resumed, on the real Kueue, while admission is away."""

import pytest

from e2e.cluster import Cluster, eventually
from e2e.conformance.scene import requeue_at, say
from e2e.stack import Program
from kube import resources


@pytest.mark.parametrize("noted", [False, True], ids=["nothing noted", "a backoff noted"])
def test_a_queue_that_was_on_hold_while_we_were_away_leaves_nobody_behind(
    cluster: Cluster, admission: Program, noted: bool
) -> None:
    """Retry is written just as Kueue takes the quota back without an eviction: its scheduler passes over the workload then."""
    cluster.queue(retry={"limit": 3, "backoff": "1s"})
    cluster.job()
    cluster.request()
    assert admission.stop(9) == -9
    try:
        put_on_hold(cluster, "Hold")
        eventually(lambda: not cluster.is_true("QuotaReserved"))
        say(cluster, cluster.namespace, "Retry", "3 of 4 nodes", **({"requeueAfterSeconds": 12} if noted else {}))
        eventually(lambda: bool(requeue_at(cluster)) == noted)
        put_on_hold(cluster, "None")
        eventually(lambda: "failed admission checks" in cluster.condition("QuotaReserved").get("message", "") or noted)
    finally:
        admission.start()
    cluster.request(2)
    assert cluster.entry()["retryCount"] == 1


def put_on_hold(cluster: Cluster, policy: str) -> None:
    cluster.api.merge(resources.CLUSTER_QUEUES, "", cluster.namespace, {"spec": {"stopPolicy": policy}})
