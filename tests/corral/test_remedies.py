"""The remedies hang on words of the provisioner's messages: they must be those that it says."""

import ast
from functools import cache
from pathlib import Path

import pytest

from corral.remedies import remedy
from kube.meta import decode
from kube.ours import CapacityPool
from provisioner.ending.closing import closed

ROOT = Path(__file__).parent.parent.parent


@cache
def said() -> str:
    """All string constants of the planner and of the provisioner."""
    trees = (ast.parse(path.read_text()) for name in ("capacity", "provisioner", "kube") for path in (ROOT / name).rglob("*.py"))
    nodes = (node for tree in trees for node in ast.walk(tree))
    return "\n".join(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("it would not fit even if all were free", "waiting can't help"),
        ("; others may bring nodes to pool ", "bring nodes to the pool"),
        ("is in Observe", "set spec.mode of the pool to Active"),
        ("is first in turn", "wait for its turn"),
        ("isn't there: create it", "create what is named"),
        ("DaemonSetsBlocked in pool ", "add the toleration"),
        ("LimitExceeded: ", "wait until others give back"),
        (" under the price ceiling", "wait for what costs less"),
    ],
)
def test_words_that_the_provisioner_says(words: str, text: str) -> None:
    assert words in said()
    [line] = remedy("GangIncomplete", f"0 of 2 pods; {words} and so on")
    assert line.startswith(text)


@pytest.mark.parametrize("end", [" was last heard at ", " wasn't heard yet"])
def test_a_cloud_that_does_not_answer(end: str) -> None:
    assert end in said()
    assert [*remedy("GangIncomplete", f"0 of 2; the cloud of pool p{end}")] == [
        "see what the pool's cloud says: kubectl describe cpool"
    ]


def test_a_pool_that_is_paused() -> None:
    paused = decode(
        {"metadata": {"name": "p"}, "spec": {"mode": "Paused", "provider": {"simulated": {"endpoint": "http://c"}}}}, CapacityPool
    )
    [line] = remedy("GangIncomplete", f"0 of 2; {closed(paused)}")
    assert line.startswith("set spec.mode of the pool to Active again")


def test_an_attempt_that_is_rolled_back() -> None:
    assert "attempt " in said()
    [line] = remedy("CapacityProvisioning", "attempt 1 failed and is rolled back: InsufficientCapacity")
    assert line.startswith("wait: it is tried again by itself")


def test_the_alternatives_that_were_found_are_pointed_to() -> None:
    [line] = remedy("GangIncomplete", "2 of 6; would fit: 2 pods")
    assert line.endswith("; or take what stands after `would fit`")


@pytest.mark.parametrize("reason", ["NoQuota", "NoPolicy", "MissingPodTemplates", "ForeignBooking", "NoPool"])
def test_messages_that_say_themselves_what_to_do(reason: str) -> None:
    assert not [*remedy(reason, "name that one in parameter policy")]
