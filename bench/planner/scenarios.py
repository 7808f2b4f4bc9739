"""The problems of S1 to S4, made of the public traces: same seed, same problems."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.planner import traces
from bench.planner.problems import BLOCK, GPU, MIB, MODEL, RACK, ZONE, Amounts, Ask, Kind, Machine, Offer, Pods, Problem

GIB = 1024 * MIB
WORKER: Amounts = {"cpu": 48_000, "memory": 192 * GIB, GPU: 8, "pods": 1}
MOST_PODS = 110
ZONES = ("zone-a", "zone-b", "zone-c")
SEED = 4

# Fair on-demand prices per GPU and hour, micro-dollars, and the host that comes with each GPU: milli-cores, GiB.
MODELS = (
    ("t4", 350_000, 8_000, 30),
    ("a10", 900_000, 12_000, 48),
    ("v100", 2_100_000, 10_000, 60),
    ("a100", 3_300_000, 12_000, 140),
)
FAMILIES = 25


# --- S1: fit on nodes that are there --------------------------------------------------------------------------------------


def s1(sizes: Sequence[int], gangs: Sequence[int]) -> Iterator[Problem]:
    """One pod a node on openb's nodes, empty and nine tenths taken; as many pods as fit, and one more than that."""
    for size in sizes:
        for taken in (0, 90):
            nodes = cluster(size, taken / 100)
            room = sum(fits(WORKER, node) for node in nodes)
            counts = {count for count in gangs if count <= room} | ({room} if room <= max(gangs) else set())
            for count in sorted(counts | ({room + 1} if taken else set())):
                kind = "impossible" if count > room else f"gang {count}"
                yield Problem(f"{size} nodes, {taken} % taken, {kind}", (gang(count),), nodes)


def gang(count: int, name: str = "gang", requests: Amounts = WORKER) -> Ask:
    return Ask(name, (Pods("worker", count, requests),))


def fits(requests: Amounts, node: Machine) -> bool:
    free = node.free()
    return all(free.get(name, 0) >= amount for name, amount in requests.items())


def cluster(size: int, taken: float) -> tuple[Machine, ...]:
    """Nodes as openb's, in one random order again and again; on the share that is taken run openb's pods, as many as fit."""
    draw, pods, nodes = random.Random(SEED), traces.pods(), []
    machines = draw.sample(traces.machines(), len(traces.machines()))
    for index in range(size):
        model, allocatable = machines[index % len(machines)]
        labels = {ZONE: ZONES[index % len(ZONES)], **({MODEL: model} if model else {})}
        node = Machine(f"node-{index:06}", labels, {**allocatable, "pods": MOST_PODS})
        nodes.append(busy(node, pods, draw) if draw.random() < taken else node)
    return tuple(nodes)


def busy(node: Machine, pods: Sequence[Amounts], draw: random.Random) -> Machine:
    """The node with pods of the trace from a random place on until one does not fit; at least one of its GPUs is taken."""
    used: dict[str, int] = {"cpu": 1_000, "memory": GIB, "pods": 1, **({GPU: 1} if GPU in node.allocatable else {})}
    for step in range(start := draw.randrange(len(pods)), start + MOST_PODS - 1):
        pod = {**pods[step % len(pods)], "pods": 1}
        more = {name: used.get(name, 0) + pod.get(name, 0) for name in {*used, *pod}}
        if any(amount > node.allocatable.get(name, 0) for name, amount in more.items()):
            break
        used = more
    return replace(node, requested=dict(sorted(used.items())))


# --- S2: three levels -----------------------------------------------------------------------------------------------------


def s2(sizes: Sequence[int], gangs: Sequence[int]) -> Iterator[Problem]:
    """All pods in one block, in as few racks as can be, on Lingjun's fabric as often as it takes, with jobs of Philly on it."""
    for size in sizes:
        hosts = fabric(size)
        blocks: dict[str, int] = {}
        for host in hosts:
            if fits(WORKER, host):
                blocks[host.labels[BLOCK]] = blocks.get(host.labels[BLOCK], 0) + 1
        most = max(blocks.values())
        for count in sorted({*(count for count in gangs if count <= most), most, most + 1}):
            kind = "impossible" if count > most else f"gang {count}"
            yield Problem(f"{size} nodes, {kind}", (bound(count),), hosts, levels=(ZONE, BLOCK, RACK))


def bound(count: int) -> Ask:
    return Ask("gang", (Pods("worker", count, WORKER, required=BLOCK, preferred=RACK),))


def fabric(size: int) -> tuple[Machine, ...]:
    """Hosts of 8 GPUs; half of the GPUs have been given to jobs in the order in which these came: a job of 8 GPUs and more got
    hosts in a row, one of less shares a host with others.
    """
    draw, places, jobs = random.Random(SEED), traces.fabric(), traces.gangs()
    free, opened, left = [8] * size, 0, 8 * size
    for step in range(start := draw.randrange(len(jobs)), start + 8 * size):
        if left <= 4 * size:
            break
        opened, given = _give(jobs[step % len(jobs)], free, opened, draw)
        left -= given
    return tuple(_host(index, places[index % len(places)], index // len(places), 8 - kept) for index, kept in enumerate(free))


def _give(job: int, free: list[int], opened: int, draw: random.Random) -> tuple[int, int]:
    """Takes the GPUs of a job and tells how many; `opened` is the host that small jobs share, before and after."""
    if job < 8:
        while free[opened] < job:
            opened = draw.randrange(len(free))
        free[opened] -= job
        return opened, job
    start, wanted = draw.randrange(len(free)), job // 8
    for index in range(start, start + len(free)):
        if not wanted:
            break
        if free[index % len(free)] == 8:
            free[index % len(free)] = 0
            wanted -= 1
    return opened, 8 * (job // 8 - wanted)


def _host(index: int, place: tuple[str, str], copy: int, used: int) -> Machine:
    block, rack = place
    labels = {ZONE: ZONES[copy % len(ZONES)], BLOCK: f"{copy}-{block}", RACK: f"{copy}-{rack}"}
    whole = {"cpu": 96_000, "memory": 384 * GIB, GPU: 8, "pods": MOST_PODS}
    taken = {"cpu": 6_000 * used, "memory": 24 * GIB * used, GPU: used, "pods": used} if used else {}
    return Machine(f"host-{index:06}", labels, whole, taken)


def as_reservations(problem: Problem) -> Problem:
    """The same, with the free hosts of each rack as one bounded reservation there, none of them launched yet."""
    racks: dict[tuple[str, str, str], int] = {}
    for node in problem.nodes:
        if fits(WORKER, node):
            place = (node.labels[ZONE], node.labels[BLOCK], node.labels[RACK])
            racks[place] = racks.get(place, 0) + 1
    kind = Kind("host", {}, problem.nodes[0].allocatable)
    offers = tuple(
        Offer(f"reservation-{rack}", kind.name, "reserved", count, 0, {ZONE: zone, BLOCK: block, RACK: rack})
        for (zone, block, rack), count in sorted(racks.items())
    )
    return replace(problem, name=f"{problem.name}, reserved", nodes=(), kinds=(kind,), offers=offers)


def fewest_racks(problem: Problem) -> int | None:
    """The largest racks of a block first are the fewest that hold identical pods; None if no block is large enough."""
    blocks: dict[str, dict[str, int]] = {}
    for node in problem.nodes:
        if fits(WORKER, node):
            racks = blocks.setdefault(node.labels[BLOCK], {})
            racks[node.labels[RACK]] = racks.get(node.labels[RACK], 0) + 1
    found = [_first(sorted(racks.values(), reverse=True), problem.pods) for racks in blocks.values()]
    return min((racks for racks in found if racks is not None), default=None)


def _first(sizes: Sequence[int], wanted: int) -> int | None:
    for taken, size in enumerate(sizes, 1):
        wanted -= size
        if wanted <= 0:
            return taken
    return None


# --- S3: grow -------------------------------------------------------------------------------------------------------------


def s3(counts: Sequence[int]) -> Iterator[Problem]:
    """Nodes to be bought out of 400 types in 3 zones: pods that fill one, pods that share one, and two pod sets together."""
    kinds, offers = market()
    for count in counts:
        yield Problem(f"{count} pods, one a node", (gang(count),), kinds=kinds, offers=offers)
    small: Amounts = {"cpu": 7_000, "memory": 40 * GIB, GPU: 1, "pods": 1}
    light: Amounts = {"cpu": 3_000, "memory": 12 * GIB, "pods": 1}
    for count in counts:
        if count >= 64:
            yield Problem(f"{count} pods of one GPU", (gang(count, requests=small),), kinds=kinds, offers=offers)
    for count in counts:
        sets = (Pods("worker", count, WORKER), Pods("driver", max(1, count // 8), light))
        yield Problem(f"{count} pods with {max(1, count // 8)} drivers", (Ask("gang", sets),), kinds=kinds, offers=offers)


def market() -> tuple[tuple[Kind, ...], tuple[Offer, ...]]:
    """4 models, 25 families and 4 sizes of instance types, in 3 zones each, at prices that differ a little by all of these."""
    draw = random.Random(SEED)
    kinds, offers = [], []
    for model, price, cores, gib in MODELS:
        for family in range(FAMILIES):
            rich = draw.randrange(80, 180)
            for gpus in (1, 2, 4, 8):
                amounts = {
                    "cpu": cores * gpus * rich // 100,
                    "memory": gib * GIB * gpus * rich // 100,
                    GPU: gpus,
                    "pods": MOST_PODS,
                }
                kind = Kind(f"{model}-{family}-{gpus}", {MODEL: model}, amounts)
                kinds.append(kind)
                each = gpus * price * (70 + rich // 4 + draw.randrange(20)) // 100
                for zone in ZONES:
                    cost = each * draw.randrange(98, 104) // 100
                    offers.append(Offer(f"{kind.name}-{zone}", kind.name, "on-demand", 100_000, cost, {ZONE: zone}))
    return tuple(kinds), tuple(offers)


# --- S4: many gangs -------------------------------------------------------------------------------------------------------


def s4(gangs: int) -> Problem:
    """Gangs of Philly's sizes, half of them larger than a host, some bound to a model or a zone; nodes of openb to start with,
    and reservations for a part of the rest.
    """
    draw = random.Random(SEED)
    kinds, offers = market()
    large, small = [size for size in traces.gangs() if size > 8], [size for size in traces.gangs() if 1 < size <= 8]
    reserved = draw.sample([kind for kind in kinds if kind.allocatable[GPU] == 8], 12)
    held = tuple(
        Offer(f"reserved-{kind.name}", kind.name, "reserved", draw.randrange(1, 6), 0, {ZONE: draw.choice(ZONES)})
        for kind in reserved
    )
    asks = tuple(_mixed(f"gang-{index:03}", draw.choice(large if index % 2 else small), draw) for index in range(gangs))
    nodes = tuple(replace(node, labels={**node.labels, MODEL: "t4"}) for node in cluster(400, 0.9) if GPU in node.allocatable)
    return Problem(f"{gangs} gangs", asks, nodes, kinds, offers + held)


def _mixed(name: str, gpus: int, draw: random.Random) -> Ask:
    """Pods of 1 to 8 GPUs with the share of a host that goes with them; two gangs in five want a model, one in five a zone."""
    each = draw.choice([size for size in (1, 2, 4, 8) if size <= gpus])
    selector: dict[str, str] = {}
    if draw.random() < 0.4:
        selector[MODEL] = draw.choice(MODELS)[0]
    if draw.random() < 0.2:
        selector[ZONE] = draw.choice(ZONES)
    requests = {"cpu": 6_000 * each, "memory": 24 * GIB * each, GPU: each, "pods": 1}
    return Ask(name, (Pods("worker", -(-gpus // each), requests, selector),))
