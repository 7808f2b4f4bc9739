"""The list of calls and the role that allows them are one."""

from pathlib import Path

import yaml

from kube import resources
from provisioner import calls

VERBS = {"apply": "patch"}
ELSEWHERE = ("leases", "jobs")
"""Kinds that roles in the service's own namespace allow."""


def allowed() -> set[str]:
    path = Path(__file__).parents[2] / "config/rbac/provisioner_role.yaml"
    roles = [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each["kind"] == "ClusterRole"]
    return {
        f"{verb} {resource}"
        for role in roles
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def needed() -> set[str]:
    split = [call.split(" ") for call in calls.API]
    return {f"{VERBS.get(verb, verb)} {what}" for verb, what in split if what not in ELSEWHERE}


def test_the_role_allows_every_listed_call() -> None:
    assert needed() - allowed() == set()


def test_the_role_allows_no_call_that_is_not_listed_but_reads() -> None:
    assert {each for each in allowed() - needed() if not each.startswith("get ")} == set()


def test_every_watched_kind_is_one_that_there_is() -> None:
    known = {kind for kind in vars(resources).values() if isinstance(kind, resources.Kind)}
    assert set(calls.WATCHED) <= known
