"""Where volumes let pods run; expected values by the volume plugins of kube-scheduler 1.36.3."""

from typing import Any

import pytest

from capacity.requirements import Expression, NodeSelectorTerm, affinity_matches
from kube.core import PodSpec
from kube.meta import decode
from kube.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from kube.volumes import Reaches, Volumes, limited, reaches

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
LATE = {"provisioner": "csi.example", "volumeBindingMode": "WaitForFirstConsumer"}


def claim(**spec: Any) -> PersistentVolumeClaim:
    notes = spec.pop("annotations", {"pv.kubernetes.io/bind-completed": "yes"})
    meta = {"namespace": "team", "name": "data", "annotations": notes, **spec.pop("metadata", {})}
    return decode(
        {"metadata": meta, "status": spec.pop("status", {}), "spec": {"volumeName": "pv", **spec}}, PersistentVolumeClaim
    )


def unbound(**spec: Any) -> PersistentVolumeClaim:
    return claim(**{"volumeName": "", "storageClassName": "late", "annotations": {}, **spec})


def volume(labels: dict[str, str] | None = None, **spec: Any) -> PersistentVolume:
    return decode({"metadata": {"name": "pv", "labels": labels or {}}, "spec": spec}, PersistentVolume)


def storage_class(name: str = "late", **fields: Any) -> StorageClass:
    return decode({"metadata": {"name": name, **fields.pop("metadata", {})}, **LATE, **fields}, StorageClass)


def known(*things: Any, **more: Any) -> Volumes:
    def named(kind: type[Any]) -> dict[Any, Any]:
        return {each.metadata.name: each for each in things if isinstance(each, kind)}

    claims = {("team", name): each for name, each in named(PersistentVolumeClaim).items()}
    return Volumes(claims, named(PersistentVolume), named(StorageClass), named(CSIDriver), **more)


CLAIMED = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}


def ephemeral(name: str | None = "late") -> dict[str, Any]:
    return {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": name}}}}


def of(volume_: dict[str, Any], storage: Volumes, count: int = 1) -> Reaches:
    return reaches(decode({"volumes": [volume_]}, PodSpec), count, "team", storage)


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}}


IN_EAST = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["east"]}]}
EAST = NodeSelectorTerm((Expression(ZONE, "In", ("east",)),))
ON_NODE = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


@pytest.mark.parametrize(
    ("bound_to", "expected"),
    [
        pytest.param(volume(csi={"driver": "csi.example"}), (), id="reached from anywhere"),
        pytest.param(volume(**required(IN_EAST)), ((EAST,),), id="node affinity"),
        pytest.param(volume(**required()), ((),), id="affinity without terms matches nothing"),
        pytest.param(volume(**required(IN_EAST, {"matchFields": [ON_NODE]})), (), id="fields match with no name: anywhere"),
        pytest.param(
            volume(**required({**IN_EAST, "matchFields": [ON_NODE]})), ((EAST,),), id="fields beside labels play no part"
        ),
        pytest.param(volume({ZONE: "a__"}), (), id="a label with an empty zone says nothing"),
    ],
)
def test_a_bound_claim_goes_where_its_volume_is(bound_to: PersistentVolume, expected: tuple[Any, ...]) -> None:
    assert of(CLAIMED, known(claim(), bound_to), count=8) == Reaches(expected)


@pytest.mark.parametrize(
    ("labels", "node", "reached"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="its zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of its zones"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that tells no place"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node that tells a region alone"),
        pytest.param({ZONE: "a"}, {OLD_ZONE: "a"}, False, id="the node's old label doesn't stand in"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a"}, True, id="the node's new label stands in for the volume's old one"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "b"}, False, id="and may differ"),
        pytest.param({OLD_ZONE: "a"}, {ZONE: "a", OLD_ZONE: "b"}, False, id="the old label goes first"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="zone and region"),
    ],
)
def test_zone_labels_of_a_volume(labels: dict[str, str], node: dict[str, str], *, reached: bool) -> None:
    found = of(CLAIMED, known(claim(), volume(labels)))
    assert all(affinity_matches(terms, node, "n") for terms in found.terms) is reached
    assert found == Reaches(found.terms)


LIMITS = known(claim(), volume(csi={"driver": "csi.example"}), limited=frozenset({"csi.example"}))


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        pytest.param(known(claim(accessModes=["ReadWriteOncePod"]), volume()), "ReadWriteOncePod: no other pod", id="one pod"),
        pytest.param(known(claim(), volume(gcePersistentDisk={})), "of a kind that moved to a CSI driver", id="in-tree"),
        pytest.param(LIMITS, "driver csi.example limits how many volumes a node takes", id="limited"),
        pytest.param(
            known(unbound(), storage_class(provisioner="kubernetes.io/no-provisioner")), "any of the free volumes", id="static"
        ),
        pytest.param(
            known(unbound(), storage_class(), volume(storageClassName="late")), "any of the free volumes", id="a free volume"
        ),
        pytest.param(
            known(
                unbound(),
                storage_class(),
                decode({"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": True}}, CSIDriver),
            ),
            "where driver csi.example has space left",
            id="space",
        ),
        pytest.param(
            known(unbound(), storage_class(), limited=frozenset({"csi.example"})), "limits how many volumes", id="limited later"
        ),
    ],
)
def test_names_what_it_cant_decide(storage: Volumes, words: str) -> None:
    found = of(CLAIMED, storage)
    [doubt] = found.doubts
    assert (found.terms, found.awaits) == ((), ())
    assert doubt.startswith("volume v: ")
    assert words in doubt


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        pytest.param(known(), "PersistentVolumeClaim data isn't there: create it in namespace team", id="no claim"),
        pytest.param(known(claim()), "PersistentVolume pv of PersistentVolumeClaim data isn't there", id="no volume"),
        pytest.param(known(claim(annotations={}), volume()), "isn't bound to its volume yet", id="promised"),
        pytest.param(known(claim(status={"phase": "Lost"}), volume()), "is lost or being deleted", id="lost"),
        pytest.param(known(claim(metadata={"deletionTimestamp": "x"}), volume()), "is lost or being deleted", id="going"),
        pytest.param(known(unbound()), "StorageClass late isn't there: create it", id="no class"),
        pytest.param(known(unbound(storageClassName="")), "data has no storage class: bind", id="to be bound by hand"),
        pytest.param(known(unbound(storageClassName=None)), "none is the default", id="no default class"),
        pytest.param(known(unbound(), storage_class(volumeBindingMode="Immediate")), "makes its volume at once", id="immediate"),
        pytest.param(
            known(unbound(annotations={"volume.kubernetes.io/selected-node": "n"}), storage_class()),
            "about to get its volume for one node",
            id="being made",
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_waits_for_what_is_on_its_way(storage: Volumes, words: str, count: int) -> None:
    found = of(CLAIMED, storage, count)
    [awaited] = found.awaits
    assert (found.terms, found.doubts) == ((), ())
    assert awaited.startswith("volume v: ")
    assert words in awaited


@pytest.mark.parametrize(
    ("name", "storage", "doubts", "awaits"),
    [
        pytest.param("", known(), ("its claim has no storage class",), (), id="none, and the template stays"),
        pytest.param("late", known(), (), ("StorageClass late isn't there: create it",), id="not there"),
        pytest.param(
            "late",
            known(storage_class(volumeBindingMode="Immediate")),
            ("StorageClass late makes the volume before it is known where the pod runs",),
            (),
            id="immediate: the claim comes with the pod",
        ),
    ],
)
def test_a_claim_of_each_pods_own(name: str, storage: Volumes, doubts: tuple[str, ...], awaits: tuple[str, ...]) -> None:
    def told(phrases: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"volume v: {phrase}" for phrase in phrases)

    assert of(ephemeral(name), storage) == Reaches((), told(doubts), told(awaits))


IN_TWO = storage_class(
    allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["east", "west"]}]}, {"matchLabelExpressions": []}]
)
TWO = ((NodeSelectorTerm((Expression(ZONE, "In", ("east", "west")),)), NodeSelectorTerm()),)
TAKEN: dict[str, Any] = {"storageClassName": "late", "claimRef": {"name": "x", "uid": "u"}}


@pytest.mark.parametrize(
    ("volume_", "storage", "expected"),
    [
        pytest.param(CLAIMED, known(unbound(), storage_class()), (), id="made anywhere"),
        pytest.param(CLAIMED, known(unbound(), IN_TWO), TWO, id="made in allowed places"),
        pytest.param(CLAIMED, known(unbound(), IN_TWO, volume(**TAKEN)), TWO, id="volumes of others don't matter"),
        pytest.param(
            CLAIMED,
            known(unbound(storageClassName="x", annotations={"volume.beta.kubernetes.io/storage-class": "late"}), IN_TWO),
            TWO,
            id="the class in the old annotation goes first",
        ),
        pytest.param(ephemeral(), known(IN_TWO), TWO, id="a claim of each pod's own"),
        pytest.param(
            ephemeral(None),
            known(storage_class(metadata={"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}})),
            (),
            id="of the default class",
        ),
    ],
)
def test_a_volume_still_to_be_made(volume_: dict[str, Any], storage: Volumes, expected: tuple[Any, ...]) -> None:
    assert of(volume_, storage) == Reaches(expected)


def test_the_newest_of_several_default_classes_counts() -> None:
    def default(name: str, day: int, **fields: Any) -> StorageClass:
        notes = {"storageclass.kubernetes.io/is-default-class": "true"}
        stamp = f"2026-01-{day:02}T00:00:00Z"
        return storage_class(name, metadata={"annotations": notes, "creationTimestamp": stamp}, **fields)

    later, earlier = default("a", 2), default("b", 1, volumeBindingMode="Immediate")
    assert of(ephemeral(None), known(later, earlier)) == Reaches()


def test_the_first_of_several_pods_decides_where_a_claim_is_bound() -> None:
    found = of(CLAIMED, known(unbound(), IN_TWO), count=2)
    [doubt] = found.doubts
    assert (found.terms, "goes where the first of the pods does" in doubt) == ((), True)
    assert of(ephemeral(), known(IN_TWO), count=2) == Reaches(TWO)


@pytest.mark.parametrize(
    ("source", "doubts"),
    [
        pytest.param({"emptyDir": {}}, (), id="emptyDir"),
        pytest.param({"csi": {"driver": "d"}}, (), id="inline CSI"),
        pytest.param({"iscsi": {"lun": 1}}, ("volume v: iscsi is limited by what else is mounted on its node",), id="iscsi"),
        pytest.param(
            {"gcePersistentDisk": {}},
            ("volume v: gcePersistentDisk is limited by what else is mounted on its node",),
            id="in-tree disk",
        ),
    ],
)
def test_volumes_without_a_claim(source: dict[str, Any], doubts: tuple[str, ...]) -> None:
    assert of({"name": "v", **source}, known()) == Reaches((), doubts)


def test_drivers_that_limit_volumes() -> None:
    drivers = [{"name": "a", "allocatable": {"count": 24}}, {"name": "b"}, {"name": "c", "allocatable": {}}]
    nodes = [decode({"metadata": {"name": "n"}, "spec": {"drivers": each}}, CSINode) for each in (drivers, None)]
    assert limited(nodes) == {"a"}
