"""A case in the making: small nodes with some pods on them, and the ways to write what a pod asks for."""

from dataclasses import dataclass, field
from random import Random

from bench.agreement.cases import ID, Json, Offering, PodSet, container, node, pod, template

ZONE, RACK = f"zone.{ID}", f"rack.{ID}"
GPU = "example.com/gpu"
OTHER = f"{ID}-b"
"""A second namespace of the case; its label tells it apart for namespace selectors."""

_CPUS = (1000, 1930, 3920, 4000, 7910)
_MEMORIES = (2 << 30, 3_000_000_000, 4 << 30, (7 << 30) + 1)

Amounts = dict[str, int]  # cpu in milli-cores, everything else in base units


@dataclass
class Draft:
    """`forms` is how each pod set's request is spread over its containers, `asks` what a feature wants it to ask for."""

    rng: Random
    nodes: dict[str, Json] = field(default_factory=dict)
    sets: list[PodSet] = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    asks: dict[str, Amounts] = field(default_factory=dict)
    pods: list[Json] = field(default_factory=list)
    others: list[Json] = field(default_factory=list)
    daemon_sets: list[Json] = field(default_factory=list)
    offerings: list[Offering] = field(default_factory=list)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def pod_set(self, name: str) -> PodSet:
        return next(pod_set for pod_set in self.sets if pod_set.name == name)

    def some_spec(self) -> Json:
        """The pod spec of one of the pod sets."""
        found: Json = self.rng.choice(self.sets).template["spec"]
        return found

    def name_of_node(self) -> str:
        return self.rng.choice(sorted(self.nodes))

    def labels(self, name: str) -> Json:
        labels: Json = self.nodes[name]["metadata"]["labels"]
        return labels

    def add_node(self, **more: int) -> str:
        """A node in a random place of the tree, named in the order of making."""
        number = len(self.nodes)
        name = f"{ID}-n{number}"
        self.nodes[name] = node(name, texts(self.rng, self._amounts() | more), self.place())
        return name

    def add_offering(self, limit: int, price: int) -> None:
        name = f"o{len(self.offerings)}"
        amounts, labels = self._amounts(), {**self.place(), "kind": name}
        self.offerings.append(Offering(name, node("", texts(self.rng, amounts), labels), limit, price))

    def place(self) -> Json:
        """Two zones with two racks each."""
        zone = self.rng.randrange(2)
        return {ZONE: f"z{zone}", RACK: f"z{zone}-r{self.rng.randrange(2)}"}

    def run(self, on: str, requests: Amounts, *, of: Json | None = None, namespace: str = ID) -> None:
        """A pod that runs on a node already, of a template or a plain one; a few are over, or about to be deleted."""
        form = of or template()
        if requests:
            form["spec"]["containers"] = [container(texts(self.rng, requests), **ports(form))]
        running = pod(f"run{len(self.pods)}", form, node_name=on, namespace=namespace)
        self.pods.append(running)
        fate = self.rng.randrange(100)
        if fate < 6:
            running["status"] = {"phase": self.rng.choice(("Succeeded", "Failed"))}
        elif fate < 12:
            running["metadata"] |= {"finalizers": ["example.com/hold"], "deletionTimestamp": "2026-01-01T00:00:00Z"}

    def second_namespace(self) -> str:
        """The case's other namespace, made on first use."""
        if not any(each["kind"] == "Namespace" for each in self.others):
            meta = {"name": OTHER, "labels": {"team": f"b-{ID}"}}
            self.others.append({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        return OTHER

    def taint(self, name: str, *taints: Json) -> None:
        """The API server takes one taint of a key and effect: of two, the later stays."""
        spec = self.nodes[name]["spec"]
        spec["taints"] = list({(one["key"], one["effect"]): one for one in (*spec.get("taints", []), *taints)}.values())

    def _amounts(self) -> Amounts:
        amounts = {"cpu": self.rng.choice(_CPUS), "memory": self.rng.choice(_MEMORIES), "pods": self.rng.choice((4, 8, 110))}
        return amounts | ({GPU: self.rng.choice((2, 4, 8))} if self.chance(30) else {})


def ports(form: Json) -> Json:
    """The ports of a template's main container, to keep when its requests are written."""
    found = form["spec"]["containers"][0].get("ports")
    return {"ports": found} if found else {}


def texts(rng: Random, amounts: Amounts) -> dict[str, str]:
    """The amounts as quantities, each written in one of the ways that mean the same."""
    return {name: _text(rng, name, amount) for name, amount in amounts.items()}


def _text(rng: Random, name: str, amount: int) -> str:
    if name == "cpu":
        ways = [f"{amount}m", f"{amount / 1000:g}" if amount % 10 == 0 else f"{amount}m"]
        return rng.choice(ways)
    if name in ("memory", "ephemeral-storage"):
        exact = [
            (size, unit) for size, unit in ((1 << 30, "Gi"), (1 << 20, "Mi"), (10**9, "G"), (1000, "k")) if amount % size == 0
        ]
        return rng.choice([str(amount), *(f"{amount // size}{unit}" for size, unit in exact if amount)])
    return str(amount)


def write_request(rng: Random, spec: Json, ask: Amounts, form: str) -> None:
    """Spread what one pod shall ask for over its containers, so that the scheduler's sum comes to `ask`.

    `form`: plain | two | init | sidecar | sidecar-init | restarted-last | pod-level | limits | rounded.
    """
    first = spec["containers"][0]
    writers = {
        "two": _two,
        "init": _init,
        "sidecar": _sidecar,
        "sidecar-init": _sidecar_init,
        "pod-level": _pod_level,
        "limits": _limits,
        "rounded": _rounded,
    }
    writers.get(form, _plain)(rng, spec, first, ask)


def _requests(target: Json, requests: dict[str, str]) -> None:
    target.update(container(requests, target["name"], **{key: value for key, value in target.items() if key == "ports"}))


def _plain(rng: Random, _: Json, first: Json, ask: Amounts) -> None:
    _requests(first, texts(rng, ask))


def _parts(rng: Random, ask: Amounts) -> tuple[Amounts, Amounts]:
    """Two parts that add up to the whole."""
    head = {name: rng.randrange(amount + 1) for name, amount in ask.items()}
    return {n: a for n, a in head.items() if a}, {n: ask[n] - head[n] for n in ask if ask[n] > head[n]}


def _two(rng: Random, spec: Json, first: Json, ask: Amounts) -> None:
    head, tail = _parts(rng, ask)
    _requests(first, texts(rng, head))
    spec["containers"].append(container(texts(rng, tail), "second"))


def _init(rng: Random, spec: Json, first: Json, ask: Amounts) -> None:
    """The first init container asks for all of it, the main container and another init container for less."""
    less, other = _parts(rng, ask)
    _requests(first, texts(rng, less))
    spec["initContainers"] = [container(texts(rng, ask), "first"), container(texts(rng, other), "last")]


def _sidecar(rng: Random, spec: Json, first: Json, ask: Amounts) -> None:
    """Main container and sidecar run together; a common init container after the sidecar asks for less than the main one."""
    main, beside = _parts(rng, ask)
    _requests(first, texts(rng, main))
    spec["initContainers"] = [
        container(texts(rng, beside), "beside", restartPolicy="Always"),
        container(texts(rng, main), "early"),
    ]


def _sidecar_init(rng: Random, spec: Json, first: Json, ask: Amounts) -> None:
    """The peak is an init container that runs beside the sidecar before it; a second sidecar comes only after it."""
    beside, peak = _parts(rng, ask)
    main, _ = _parts(rng, peak)
    late = {name: amount - main.get(name, 0) for name, amount in peak.items() if amount > main.get(name, 0)}
    _requests(first, texts(rng, main))
    spec["initContainers"] = [
        container(texts(rng, beside), "beside", restartPolicy="Always"),
        container(texts(rng, peak), "peak"),
        container(texts(rng, late), "late", restartPolicy="Always"),
    ]


def _pod_level(rng: Random, spec: Json, first: Json, ask: Amounts) -> None:
    """The pod's own requests exceed what its container asks for; extended resources can't be asked for there."""
    level = {name: amount for name, amount in ask.items() if name in ("cpu", "memory")}
    less, _ = _parts(rng, level)
    _requests(first, texts(rng, {**less, **{name: amount for name, amount in ask.items() if name not in level}}))
    spec["resources"] = {rng.choice(("requests", "requests", "limits")): texts(rng, level)}
    if "limits" in spec["resources"]:
        spec["resources"]["requests"] = texts(rng, level)


def _limits(rng: Random, _: Json, first: Json, ask: Amounts) -> None:
    """Limits alone: requests default to them."""
    first["resources"] = {"limits": texts(rng, ask)}


def _rounded(rng: Random, _: Json, first: Json, ask: Amounts) -> None:
    """A fraction of a milli-core, or of a byte, counts as a whole one."""
    written = texts(rng, ask)
    if ask.get("cpu", 0) > 1:
        written["cpu"] = f"{ask['cpu'] - 1}001u"
    if ask.get("memory", 0) > 1:
        written["memory"] = f"{ask['memory'] - 1}500m"
    _requests(first, written)
