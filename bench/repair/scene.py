"""What is played: racks of a reservation, the pool that sells them, and the booking of one gang on all of it."""

from datetime import datetime, timedelta
from typing import Any

from kube import ours
from kube.meta import ObjectKey, ObjectMeta
from kube.times import stamp
from provisioner.clouds.simulated.config import Config, parse

GANG = 250
RACKS = 25
IN_RACK = GANG // RACKS
SHAPE, ZONE, BLOCK = "p5.48xlarge", "z1", "cr-gang"
DEADLINE, READINESS = 40 * 60, 10 * 60
"""Seconds for the whole gang, and for one machine from launch to ready."""
BOOT, JOIN, DEVICES, END = 90, 60, 45, 240
"""Seconds of a machine's steps: order to running, to Node, to devices, and from termination to a free slot."""

KINDS: tuple[dict[str, Any], ...] = (
    {"kind": "never-joins"},
    {"kind": "never-ready"},
    {"kind": "fewer-devices", "devices": {"nvidia.com/gpu": 7}},
    {"kind": "unhealthy", "condition": {"type": "KernelDeadlock", "status": "True"}},
)
"""What a bad machine may have; each strikes a fourth of the bad ones."""


def cloud(spare: int, one_in: int) -> Config:
    """A reservation of the gang and `spare` machines more in each rack. One machine in `one_in` is bad, new ones as well."""
    racks = [{"name": f"r{number}", "slots": {SHAPE: IN_RACK + spare}} for number in range(RACKS)]
    return parse(
        {
            "zones": [{"name": ZONE, "racks": racks}],
            "reservations": [{"id": BLOCK, "shape": SHAPE, "zone": ZONE, "racks": {r["name"]: IN_RACK + spare for r in racks}}],
            "faults": [{**each, "oneIn": one_in * len(KINDS)} for each in KINDS],
            "delays": {"launch": f"{BOOT}s", "join": f"{JOIN}s", "devices": f"{DEVICES}s", "terminate": f"{END}s"},
        }
    )


def pool(config: Config) -> dict[str, Any]:
    source = {"name": "block", "capacityType": "reserved", "reservationIDs": [BLOCK]}
    shape = config.shape(SHAPE)
    assert shape is not None
    there = {**shape.allocatable, **{name: str(count) for name, count in shape.devices.items()}}
    taints = [taint.to_json() for taint in shape.taints]
    spec = {
        "provider": {"simulated": {"endpoint": "http://cloud"}},
        "mode": "Active",
        "sources": [source],
        "readiness": {"timeout": f"{READINESS}s"},
    }
    shapes = [{"name": SHAPE, "allocatable": there, "taints": taints}]
    return {"metadata": {"name": "p", "uid": "p-uid"}, "spec": spec, "status": {"shapes": shapes}}


def booking(seed: int, config: Config, now: datetime) -> ours.Booking:
    """Each rack's part of the gang is one purchase, as the planner writes it. The seed is in the tokens, so in what is bad."""
    purchases = tuple(_purchase(number, config) for number in range(RACKS))
    spec = ours.BookingSpec(
        request=ObjectKey(namespace="team", name="job", uid=f"seed-{seed}"),
        attempt=1,
        installation="here",
        policy="training",
        pod_sets=(ours.BookedPodSet(name="main", count=GANG, label="b.booking.corral.dev/main", requests={"pods": 1}),),
        provision_deadline=stamp(now + timedelta(seconds=DEADLINE)),
        booking_seconds=900,
        workload=ObjectKey(namespace="team", name="job", uid="22222222-2222-2222-2222-222222222222"),
        purchases=purchases,
    )
    meta = ObjectMeta(name="b", uid="b-uid", creation_timestamp=stamp(now), finalizers=("corral.dev/booking",))
    return ours.Booking(metadata=meta, spec=spec)


def _purchase(number: int, config: Config) -> ours.BookedPurchase:
    return ours.BookedPurchase(
        name=f"p{number}",
        pool="p",
        source="block",
        offering=f"p/block/{BLOCK}/{ZONE}/r{number}",
        shape=SHAPE,
        zone=ZONE,
        capacity_type="reserved",
        count=IN_RACK,
        pods={"main": 1},
        reservation_id=BLOCK,
        domain=config.place_labels(ZONE, f"r{number}"),
    )
