"""ProvisioningRequest of group `autoscaling.x-k8s.io/v1`, as the upstream API defines it.

Source of every limit: the API module `k8s.io/autoscaler/cluster-autoscaler/apis`. The CRD that Corral ships is generated from
these models.
"""

from typing import Annotated

from msgspec import Meta

from kube.meta import Condition, ObjectMeta, Record

GROUP = "autoscaling.x-k8s.io"
VERSION = "v1"

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
Subdomain = Annotated[str, Meta(pattern=_SUBDOMAIN, max_length=253)]


class Reference(Record, frozen=True, kw_only=True):
    """Names a core/v1 PodTemplate in the request's own namespace."""

    name: Subdomain


class RequestPodSet(Record, frozen=True, kw_only=True):
    """`count` pods of one template."""

    pod_template_ref: Reference
    count: Annotated[int, Meta(ge=1, extra_json_schema={"format": "int32"})]


class ProvisioningRequestSpec(Record, frozen=True, kw_only=True):
    provisioning_class_name: Subdomain
    pod_sets: Annotated[tuple[RequestPodSet, ...], Meta(min_length=1, max_length=32)]
    parameters: Annotated[dict[str, Annotated[str, Meta(max_length=255)]], Meta(max_length=100)] = {}


class ProvisioningRequestStatus(Record, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()
    provisioning_class_details: Annotated[dict[str, Annotated[str, Meta(max_length=32768)]], Meta(max_length=64)] = {}


class ProvisioningRequest(Record, frozen=True, kw_only=True):
    metadata: ObjectMeta
    spec: ProvisioningRequestSpec
    api_version: str = f"{GROUP}/{VERSION}"
    kind: str = "ProvisioningRequest"
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()
