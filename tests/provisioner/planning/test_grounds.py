"""What is made of nodes once stays for as long as neither they nor their pods change."""

from collections import Counter
from dataclasses import replace

from provisioner.planning.grounds import Grounds, Standing
from tests.provisioner.make import node, pod

STEERED = pod("p", nodeSelector={"b.booking.corral.dev/main": "true", "disk": "ssd"})


def test_answers_for_the_same_objects_alone() -> None:
    grounds, there, here = Grounds(), node("n"), pod("p")
    first = grounds.get(there, [here], "p")
    assert grounds.get(there, [here], "p") is first
    assert grounds.get(there, [here], "q") is not first
    again = grounds.get(there, [here], "p")
    assert grounds.get(node("n"), [here], "p") is not again
    assert grounds.get(there, [pod("p")], "p") is not again


def test_a_node_that_cant_be_read_comes_back_once_it_can() -> None:
    grounds = Grounds()
    assert grounds.get(node("n", allocatable={"cpu": "lots"}), [], "p") is None
    assert grounds.get(node("n"), [], "p") is not None


def test_the_labels_of_namespaces_decide_what_pods_keep_away() -> None:
    term = {"topologyKey": "rack", "namespaceSelector": {"matchLabels": {"a": "b"}}}
    shy = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    grounds, there, here = Grounds(), node("n"), pod("p", affinity=shy)

    def reached() -> object:
        made = grounds.get(there, [here], "p")
        assert made is not None
        assert tuple(replace(pod, requests={}) for pod in made.pods) == grounds.beside(there, [here]).pods
        return made.pods[0].apart[0].namespaces

    grounds.on({"x": {"a": "b"}})
    assert reached() == {"x"}
    grounds.on({"x": {}, "y": {"a": "b"}})
    assert reached() == {"y"}


def test_a_node_that_stands_as_before_is_the_same() -> None:
    grounds = Grounds()
    made = grounds.get(node("n"), [], "p")
    assert made is not None
    free, held = Standing(None, launched=False, going=False), Standing("b", launched=False, going=False)
    first = grounds.placed(made, free)
    assert grounds.placed(made, replace(free)) is first
    assert (first.booked_by, grounds.placed(made, held).booked_by) == (None, "b")


def test_counts_the_pods_that_select_a_node_for_a_booking() -> None:
    grounds = Grounds()
    assert grounds.selected("n", [STEERED, STEERED, pod("q")]) == Counter({"b.booking.corral.dev/main": 2})
    assert grounds.selected("n", []) == Counter()


def test_the_index_follows_the_nodes() -> None:
    grounds = Grounds()
    made = [grounds.get(node(name), [], "p") for name in ("a", "b")]
    free = Standing(None, launched=False, going=False)
    nodes = [grounds.placed(each, free) for each in made if each is not None]
    first = grounds.stock(nodes)
    assert {each.name for each in first.nodes} == {"a", "b"}
    assert grounds.stock(nodes).nodes is first.nodes
    assert [each.name for each in grounds.stock(nodes[1:]).nodes] == ["b"]
    assert not first.holds(first.nodes)


def test_what_is_gone_is_forgotten() -> None:
    grounds = Grounds()
    for name in ("lost", "unread"):
        assert grounds.get(node(name, allocatable={"cpu": "lots"}), [], "p") is None
        grounds.selected(name, [STEERED])
    grounds.stock(())
    assert (grounds._nodes, grounds._selected) == ({}, {})


def test_bystanders_stay_the_same_object_until_one_changes() -> None:
    grounds, there = Grounds(), node("n")
    first = grounds.bystanders((grounds.beside(there, []),))
    assert grounds.bystanders((grounds.beside(there, []),)) is first
    assert grounds.bystanders((grounds.beside(there, [pod("p")]),)) is not first
    assert grounds.bystanders(()) == ()
