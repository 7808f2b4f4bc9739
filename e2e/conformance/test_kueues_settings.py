"""Rows 3.9 that need another configuration of Kueue than all other tests have: it is started anew for them, and afterwards."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from e2e import ports
from e2e.cluster import Cluster, eventually
from e2e.conformance.places import assignment, gates, node, with_topology
from e2e.conformance.scene import suspended
from e2e.controlplane.cluster import ControlPlane
from kube import resources


@contextmanager
def kueue_with(plane: ControlPlane, **changes: Any) -> Iterator[None]:
    """Kueue with further sections in its configuration, or with more in those that are there."""
    path = plane.directory / "kueue.json"
    before = path.read_text()
    config = json.loads(before)
    changed = {name: config.get(name, {}) | section for name, section in changes.items()}
    try:
        path.write_text(json.dumps(config | changed))
        plane.restart("kueue")
        yield
    finally:
        path.write_text(before)
        plane.restart("kueue")


@pytest.mark.timeout(600)
@pytest.mark.row("3.9-120", "3.9-123")
def test_a_job_that_starts_with_topologies_off_and_metrics_on(cluster: Cluster, controlplane: ControlPlane) -> None:
    """Its pods are placed while the feature is on, and get no gate after it was turned off. Kueue measures how long we took."""
    cluster.queue()
    with_topology(cluster)
    address = f"127.0.0.1:{ports.take()[0]}"
    waited = f'kueue_admission_checks_wait_time_seconds_count{{cluster_queue="{cluster.namespace}"'
    with node(cluster):
        cluster.job(pods=1)
        request = cluster.request()
        assert assignment(cluster)["topologyAssignment"]
        with kueue_with(controlplane, featureGates={"TopologyAwareScheduling": False}, metrics={"bindAddress": address}):
            cluster.provision(request)
            eventually(lambda: cluster.is_true("Admitted") and not suspended(cluster))
            assert gates(cluster.get(resources.JOBS, "job")["spec"]["template"]["spec"]) == []
            eventually(
                lambda: [line for line in metrics(controlplane, address) if line.startswith(waited) and line.endswith(" 1")]
            )


def metrics(plane: ControlPlane, address: str) -> list[str]:
    """Lines of Kueue's metrics, which it serves to administrators alone, with a certificate that nobody has signed."""
    token = json.loads(plane.kubeconfig.read_text())["users"][0]["user"]["token"]
    asked = urllib.request.Request(f"https://{address}/metrics", headers={"Authorization": f"Bearer {token}"})
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(asked, timeout=10, context=unverified) as reply:
            return str(reply.read().decode()).splitlines()
    except urllib.error.URLError:  # it serves them a moment after it is ready
        return []
