"""The reference pages name everything that the code can say, and every relative link leads somewhere. Textual and cheap."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.inspect import DictType, Field, ListType, StructType, UnionType, VarTupleType, type_info
from pydantic import BaseModel

from admission.model import State
from admission.settings import AdmissionSettings
from capacity.model import CapacityType, Reason
from kube.ours import BookedInstance, BookingStatus, CapacityPolicySpec, CapacityPoolSpec, Launch
from provisioner import steps
from provisioner.asking.parameters import Parameters
from provisioner.clouds.base import ErrorKind
from provisioner.settings import ProvisionerSettings
from provisioner.telling.statuses import OURS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
CODE = ("admission", "provisioner", "runtime", "kube")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "designs").glob("*.md"), ROOT / "config" / "README.md"])

# What looks like a reason and isn't one: words of class details, of Kubernetes and of Kueue, names of types.
NO_REASONS = {"Attempt", "FirstAttemptAt", "LastError", "NodesByPodSet", "CostPerHour", "Room", "View", "Memo"}
NO_REASONS |= {"Exists", "NoSchedule", "PreferNoSchedule", "QuotaReserved", "Planning", "DeactivationTarget"}
NO_REASONS |= {"Finished", "WorkloadSliceReplaced", "Complete", "ReplicaSet", "ReplicationController"}
NO_REASONS |= {"BadRequest", "DisruptionTarget", "Ignore", "NoExecute"}
WORD = re.compile(r"[A-Z][a-z]+([A-Z][a-z]+)*")
OUR_KEY = re.compile(r"corral\.dev/[a-z-]+")
NO_KEYS = {"corral.dev/v", "corral.dev/provisioner"}  # API versions, the reporter of events


@cache
def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@cache
def strings(path: Path) -> frozenset[str]:
    """All string constants of a module, parts of f-strings included, docstrings not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in bare)
    return frozenset(node.value for node in found if isinstance(node.value, str))


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from (path for path in (ROOT / package).rglob("*.py") if "simulated" not in path.parts)


def unnamed(words: set[str], text: str) -> list[str]:
    return sorted(word for word in words if word not in text)


# --- conditions.md --------------------------------------------------------------------------------------------------------


def test_each_member_of_the_closed_sets_is_explained() -> None:
    kinds = (State, steps.Reason, steps.Verdict, ErrorKind)
    words = {member.value for kind in kinds for member in kind} | set(OURS) | {reason.value for reason in Reason}
    assert unnamed(words - {Reason.QUOTA_INSUFFICIENT.value}, page("conditions.md")) == []
    assert Reason.QUOTA_INSUFFICIENT.value in page("troubleshooting.md")


def test_each_way_of_waiting_has_its_section() -> None:
    assert re.findall(r"^### (\w+)$", page("troubleshooting.md"), re.MULTILINE) == [reason.value for reason in Reason]


def test_each_reason_and_event_is_explained() -> None:
    """Kinds, and values that a pool or policy can take, are explained with the parameters."""
    told = page("conditions.md") + page("parameters.md")
    ours = [path for path in modules("admission", "provisioner") if "aws" not in path.parts]  # it speaks EC2's own words
    words = {text for path in ours for text in strings(path) if WORD.fullmatch(text)}
    assert {"TooManyOrphans", "BadParametersRef", "NodesSelectedTwice"} <= words
    assert unnamed(words - NO_REASONS - {Reason.QUOTA_INSUFFICIENT.value}, told) == []


def test_each_check_of_aws_is_explained() -> None:
    tree = ast.parse((ROOT / "provisioner" / "clouds" / "aws" / "preflight.py").read_text(encoding="utf-8"))
    first = {
        ast.unparse(node.args[0]) for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "_check"
    }
    named = {name.strip("'") for name in first if name.startswith("'")} | {"SecurityGroupUnfit"}
    assert len(named) == 9
    assert unnamed(named, page("aws.md")) == []


@pytest.mark.parametrize("model", [BookingStatus, BookedInstance, Launch])
def test_each_phase_and_state_is_explained(model: type[Struct]) -> None:
    words = {str(value) for field in fields(model) for value in getattr(field.type, "values", ())}
    assert words
    assert unnamed(words, page("conditions.md")) == []


# --- parameters.md --------------------------------------------------------------------------------------------------------


def fields(model: type[Struct]) -> tuple[Field, ...]:
    info = type_info(model)
    assert isinstance(info, StructType)
    return info.fields


def leaves(info: object, name: str) -> Iterator[str]:
    """The names of fields without fields of their own, as on the wire."""
    match info:
        case StructType(fields=inner) if inner:
            for field in inner:
                yield from leaves(field.type, field.encode_name)
        case UnionType(types=options):
            for option in options:
                yield from leaves(option, name)
        case VarTupleType(item_type=item) | ListType(item_type=item):
            yield from leaves(item, name)
        case DictType():
            yield name
        case _:
            yield name


def settings(model: type[BaseModel]) -> Iterator[str]:
    for field in model.model_fields.values():
        inner = field.annotation
        nested = isinstance(inner, type) and issubclass(inner, BaseModel)
        yield from settings(inner) if nested else [str(field.alias)]  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [CapacityPoolSpec, CapacityPolicySpec])
def test_each_field_of_a_spec_is_explained(model: type[Struct]) -> None:
    names = set(leaves(type_info(model), "spec"))
    assert {"mode", "spareNodes", "endpoint"} <= names or {"maxBackoff", "capacityOrder"} <= names
    assert unnamed(names, page("parameters.md")) == []


@pytest.mark.parametrize("model", [Parameters, AdmissionSettings, ProvisionerSettings])
def test_each_setting_is_explained(model: type[BaseModel]) -> None:
    assert unnamed(set(settings(model)), page("parameters.md")) == []


def test_each_capacity_type_is_named() -> None:
    assert unnamed({kind.value for kind in CapacityType}, page("parameters.md")) == []


def test_each_key_of_ours_is_explained() -> None:
    found = {key for path in modules(*CODE) for text in strings(path) for key in OUR_KEY.findall(text)}
    assert "corral.dev/idle-since" in found
    assert unnamed(found - NO_KEYS, page("parameters.md")) == []


# --- observability.md -----------------------------------------------------------------------------------------------------


def test_each_metric_is_explained() -> None:
    found = {text for path in modules(*CODE) for text in strings(path) if re.fullmatch(r"corral(_[a-z]+)+", text)}
    assert len(found) > 15
    assert unnamed(found, page("observability.md")) == []


def test_no_metric_is_made_up() -> None:
    made = {text for path in modules(*CODE) for text in strings(path)}
    named = set(re.findall(r"`(corral_[a-z_]+)`", page("observability.md")))
    unknown = {name for name in named if not {name.removesuffix("_total"), name.removesuffix("_seconds")} & made}
    assert unknown == set()


SPAN_MAKERS = ("start_as_current_span", "start_span", "traced", "Span", "finish_root")


def named_by(*makers: str) -> set[str]:
    """The plain texts among the first two arguments of each call to one of the makers, in the services."""
    calls = (
        node
        for path in modules("admission", "provisioner")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in makers
    )
    return {
        argument.value
        for call in calls
        for argument in call.args[:2]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_each_span_and_controller_is_explained() -> None:
    spans, controllers = named_by(*SPAN_MAKERS), named_by("Controller")
    assert {"plan", "request", "buy"} <= spans
    assert {"planner", "workloads"} <= controllers
    assert [name for name in sorted(spans | controllers) if f"`{name}`" not in page("observability.md")] == []


# --- links ----------------------------------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        there = (path.parent / target).resolve() if target else path
        if not there.exists() or (anchor and anchor[1:] not in anchors(there)):
            broken.append(f"{target}{anchor}")
    assert broken == []
