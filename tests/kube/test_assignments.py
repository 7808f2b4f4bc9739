"""Assignments in the short form of Kueue's API, each as its fields are documented there."""

from typing import Any

import pytest

from kube.assignments import pods_by_host

HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"levels": ["rack"], "slices": [{"domainCount": 1}]}, {}, id="no-host-level"),
        pytest.param(
            {
                "levels": [HOST],
                "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "n1"}], "podCounts": {"universal": 3}}],
            },
            {"n1": 3},
            id="one-host",
        ),
        pytest.param(
            {
                "levels": [HOST],
                "slices": [
                    {
                        "domainCount": 2,
                        "valuesPerLevel": [{"individual": {"prefix": "n-", "suffix": ".x", "roots": ["1", "2"]}}],
                        "podCounts": {"individual": [1, 2]},
                    },
                    {"domainCount": 1, "valuesPerLevel": [{"individual": {"roots": ["m"]}}], "podCounts": {"universal": 4}},
                ],
            },
            {"n-1.x": 1, "n-2.x": 2, "m": 4},
            id="beginnings-and-ends-in-common",
        ),
    ],
)
def test_pods_by_host(assignment: dict[str, Any], expected: dict[str, int]) -> None:
    assert pods_by_host(assignment) == expected
