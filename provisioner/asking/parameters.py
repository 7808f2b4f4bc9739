"""What a request may say in `spec.parameters`, and what follows from it and from its CapacityPolicy.

An unknown key or a bad value is refused, naming key, value and remedy: a mistyped timeout is never ignored. A request may
override what its policy opens, and of time, money, retries and capacity types ask for no more than the policy gives.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args

from msgspec.structs import replace
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
_TYPES = get_args(ours.CapacityTypeName)


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


def _time(text: str) -> str:
    if seconds(text) < 1:
        raise ValueError("must be a duration of a second or more such as 90m")
    return text


def _price(text: str) -> str:
    money(text)
    return text


def _number(text: str) -> str:
    if not re.fullmatch(r"\d{1,3}", text, re.ASCII):
        raise ValueError("must be a whole number such as 0")
    return text


def _order(text: str) -> str:
    kinds = text.split(",")
    if not set(kinds) <= set(_TYPES) or len(set(kinds)) < len(kinds):
        raise ValueError(f"must be some of {', '.join(_TYPES)}, each once, with commas between them and no spaces")
    return text


LabelKey = Annotated[str, AfterValidator(_label_key)]
Time = Annotated[str, AfterValidator(_time)]


class Parameters(BaseModel):
    """The keys of `spec.parameters`; all values are strings there."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)

    policy: str = Field(default="", max_length=253)
    required_topology: LabelKey | None = None
    preferred_topology: LabelKey | None = None
    run_duration: Annotated[str, AfterValidator(_duration)] | None = None
    capacity_order: Annotated[str, AfterValidator(_order)] | None = None
    price_ceiling_per_hour: Annotated[str, AfterValidator(_price)] | None = None
    queued_timeout: Time | None = None
    provision_timeout: Time | None = None
    retry_limit: Annotated[str, AfterValidator(_number)] | None = None


_FIELDS = {to_camel(field): field for field in Parameters.model_fields}


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
    launch: int = 600
    join: int | None = None
    verify: int | None = None
    release: int = 1800


def terms(given: Mapping[str, str], policy: Callable[[str], ours.CapacityPolicy | None], priority_class: str = "") -> Terms:
    """`policy` looks a CapacityPolicy up by name; `priority_class` is that of the Workload, "" for a bare request.

    Raises ParameterError.
    """
    parameters = _read(given)
    found = policy(named(given))
    if found is None:
        raise PolicyMissingError(_no_policy(parameters.policy))
    serving = found.serving(priority_class)
    chosen = found if serving == found.metadata.name else policy(serving)
    if chosen is None:
        raise PolicyMissingError(
            f'CapacityPolicy "{found.metadata.name}": spec.byPriorityClass hands {priority_class} to CapacityPolicy "{serving}", '
            f"which is not there: create it or correct the name"
        )
    return _terms(serving, _overridden(serving, chosen.spec, parameters))


def named(given: Mapping[str, str]) -> str:
    """The policy that the parameters name."""
    return given.get("policy") or DEFAULT_POLICY


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


def _overridden(name: str, spec: ours.CapacityPolicySpec, asked: Parameters) -> ours.CapacityPolicySpec:
    """The policy as the request asks for it. Raises ParameterError for what the policy doesn't open or allow."""
    for key, opening in ours.OVERRIDES.items():
        if getattr(asked, _FIELDS[key]) is not None and opening not in spec.user_overrides:
            raise ParameterError(
                f'parameter {key}: CapacityPolicy "{name}" does not open it: remove it, '
                f"or add {opening} to userOverrides of the policy"
            )
    for key, given, bound in _beyond(spec, asked):
        raise ParameterError(
            f'parameter {key} = "{given}": CapacityPolicy "{name}" allows {bound} at most: ask for no more, '
            f"or raise {ours.OVERRIDES[key]} of the policy"
        )
    return replace(
        spec,
        capacity_order=tuple(asked.capacity_order.split(",")) if asked.capacity_order else spec.capacity_order,
        topology=ours.TopologyPolicy(
            required=asked.required_topology or spec.topology.required,
            preferred=asked.preferred_topology or spec.topology.preferred,
        ),
        price_ceiling_per_hour=asked.price_ceiling_per_hour or spec.price_ceiling_per_hour,
        timeouts=replace(
            spec.timeouts,
            queued=asked.queued_timeout or spec.timeouts.queued,
            provision=asked.provision_timeout or spec.timeouts.provision,
        ),
        run_duration=ours.RunDuration(default=asked.run_duration or spec.run_duration.default),
    )


def _beyond(spec: ours.CapacityPolicySpec, asked: Parameters) -> Iterator[tuple[str, str, str]]:
    """Key, value and the policy's bound of what asks for more than the policy gives."""
    kinds = asked.capacity_order.split(",") if asked.capacity_order else ()
    if not set(kinds) <= set(spec.capacity_order):
        yield "capacityOrder", ",".join(kinds), ",".join(spec.capacity_order)
    bounds: tuple[tuple[str, str | None, str | None, Callable[[str], int]], ...] = (
        ("priceCeilingPerHour", asked.price_ceiling_per_hour, spec.price_ceiling_per_hour, money),
        ("queuedTimeout", asked.queued_timeout, spec.timeouts.queued, seconds),
        ("provisionTimeout", asked.provision_timeout, spec.timeouts.provision, seconds),
        ("retryLimit", asked.retry_limit, str(spec.retry.limit), int),
    )
    for key, given, bound, read in bounds:
        if given is not None and bound is not None and read(given) > read(bound):
            yield key, given, bound


def _terms(name: str, spec: ours.CapacityPolicySpec) -> Terms:
    """Raises ParameterError when the policy itself holds a value that can't be read."""
    try:
        preferences = Preferences(
            capacity_order=tuple(map(CapacityType, spec.capacity_order)),
            required_topology=spec.topology.required,
            preferred_topology=spec.topology.preferred,
            cross_zone_cost=money(spec.cross_zone.cost_per_node_hour) if spec.cross_zone.policy == "Allow" else 0,
            price_ceiling=None if spec.price_ceiling_per_hour is None else money(spec.price_ceiling_per_hour),
        )
        duration = _duration(spec.run_duration.default)
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
            launch=seconds(spec.timeouts.launch),
            join=seconds(spec.timeouts.join) if spec.timeouts.join else None,
            verify=seconds(spec.timeouts.verify) if spec.timeouts.verify else None,
            release=seconds(spec.timeouts.release),
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
