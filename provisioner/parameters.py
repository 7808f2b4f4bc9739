"""What a request may say in `spec.parameters`, and what follows from it and from its CapacityPolicy.

An unknown key or a bad value is refused, naming key, value and remedy: a mistyped timeout is never ignored.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from capacity.model import CapacityType, Preferences
from capacity.quantity import money
from kube import ours
from kube.times import seconds

DEFAULT_POLICY = "default"
UNKNOWN = "Unknown"
NO_POOL = "there is no CapacityPool: create one"
_LABEL_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_OPENED_BY = {"required_topology": "topology.required", "preferred_topology": "topology.preferred", "run_duration": "runDuration"}


class ParameterError(ValueError):
    """A request's parameters can't be served; the text names key, value and remedy."""


class PolicyMissingError(ParameterError):
    """There is no such CapacityPolicy: a matter for who runs the cluster, unless the request's author chose the name."""


def _label_key(text: str) -> str:
    if not _LABEL_KEY.fullmatch(text):
        raise ValueError("must be a node label key such as topology.kubernetes.io/zone")
    return text


def _duration(text: str) -> str:
    if text != UNKNOWN and seconds(text) < 1:
        raise ValueError(f"must be {UNKNOWN} or a duration of a second or more such as 90m")
    return text


LabelKey = Annotated[str, AfterValidator(_label_key)]


class Parameters(BaseModel):
    """The keys of `spec.parameters`; all values are strings there."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    policy: str = Field(default="", max_length=253)
    required_topology: LabelKey | None = None
    preferred_topology: LabelKey | None = None
    run_duration: Annotated[str, AfterValidator(_duration)] | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a request is served: its policy with the overrides applied. Times in seconds; `run_duration` None: unknown.

    `pools` are the names of the pools it may use, empty for all. `one_zone`: the gang must not cross zones.
    """

    policy: str
    preferences: Preferences
    pools: tuple[str, ...]
    queued: int
    provision: int
    booking: int
    run_duration: int | None
    one_zone: bool
    bare_namespaces: tuple[str, ...]
    on_node_loss: str = "Replace"


def terms(given: Mapping[str, str], policy: Callable[[str], ours.CapacityPolicy | None]) -> Terms:
    """`policy` looks a CapacityPolicy up by name. Raises ParameterError."""
    parameters = _read(given)
    name = parameters.policy or DEFAULT_POLICY
    found = policy(name)
    if found is None:
        raise PolicyMissingError(_no_policy(parameters.policy))
    for field, opening in _OPENED_BY.items():
        if getattr(parameters, field) is not None and opening not in found.spec.user_overrides:
            raise ParameterError(
                f'parameter {to_camel(field)}: CapacityPolicy "{name}" does not open it: remove it, '
                f"or add {opening} to userOverrides of the policy"
            )
    return _terms(name, found.spec, parameters)


def _no_policy(asked: str) -> str:
    if asked:
        return f'parameter policy: there is no CapacityPolicy "{asked}": create it or name another'
    return f'parameter policy is missing and there is no CapacityPolicy "{DEFAULT_POLICY}": name a policy or create that one'


def _read(given: Mapping[str, str]) -> Parameters:
    try:
        return Parameters.model_validate(dict(given))
    except ValidationError as error:
        raise ParameterError("; ".join(_words(each) for each in error.errors())) from None


def _words(error: Any) -> str:
    """One mistake in words; text from users is cut."""
    key = str(error["loc"][0])[:80] if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        known = ", ".join(to_camel(name) for name in Parameters.model_fields)
        return f'parameter "{key}" is unknown: remove it; known are {known}'
    return f'parameter {key} = "{str(error["input"])[:80]}": {error["msg"].removeprefix("Value error, ")}'


def _terms(name: str, spec: ours.CapacityPolicySpec, parameters: Parameters) -> Terms:
    """Raises ParameterError when the policy itself holds a value that can't be read."""
    try:
        preferences = Preferences(
            capacity_order=tuple(map(CapacityType, spec.capacity_order)),
            required_topology=parameters.required_topology or spec.topology.required,
            preferred_topology=parameters.preferred_topology or spec.topology.preferred,
            cross_zone_cost=money(spec.cross_zone.cost_per_node_hour) if spec.cross_zone.policy == "Allow" else 0,
            price_ceiling=None if spec.price_ceiling_per_hour is None else money(spec.price_ceiling_per_hour),
        )
        duration = _duration(parameters.run_duration or spec.run_duration.default)
        return Terms(
            policy=name,
            preferences=preferences,
            pools=spec.pools,
            queued=seconds(spec.timeouts.queued),
            provision=seconds(spec.timeouts.provision),
            booking=seconds(spec.timeouts.booking),
            run_duration=None if duration == UNKNOWN else seconds(duration),
            one_zone=spec.cross_zone.policy == "Forbid",
            bare_namespaces=spec.bare_requests.namespaces,
            on_node_loss=spec.on_node_loss,
        )
    except ValueError as error:
        raise ParameterError(f'CapacityPolicy "{name}": {error}: correct the policy') from None


def poolless(agreed: Terms, there: Collection[str]) -> str:
    """Why none of the pools that are there may serve, "" if one may."""
    if any(name in there for name in agreed.pools) or (there and not agreed.pools):
        return ""
    return f"CapacityPolicy {agreed.policy}: {absent_pools(agreed.pools, there) or NO_POOL}"


def absent_pools(wanted: Collection[str], there: Collection[str]) -> str:
    """What to say of the names that no pool has, "" if there are none."""
    absent = sorted(set(wanted) - set(there))
    return f"there is no CapacityPool {', '.join(absent)}: create it or correct the name" if absent else ""
