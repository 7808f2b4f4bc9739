"""The nodes of a plan in every way in which they may turn out, as far as that decides where Kueue puts pods.

What only time will tell: how new nodes are named, which decides between domains of equal room; whether nodes share a domain of a
level whose value only the launch will tell; and which domains hold nodes that are not the plan's, which matters to leaders.

- **Names.** Kueue v0.17.0 compares names only of hosts in one domain (it compares whole paths). Hosts of equal room that let in
  the same pod sets are alike: what counts is in which order the kinds come. All orders are tried.
- **Other nodes.** One that takes no pod makes Kueue think that a leader costs each domain above it nothing, and does no more. All
  sets of domains that can hold such nodes are tried.
- **Unknown values.** All nodes in one domain, and each in its own: a single pod set has the most and the least room there. For
  several pod sets that is no proof.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice, product

from capacity.fit import Host
from capacity.model import HOSTNAME
from capacity.tas.room import Request

MOST = 128
"""Ways that are tried, beyond which there is no proof."""
LARGEST = 256
"""Hosts in a domain whose orders are looked at where they are of several kinds."""
_LABEL_VALUE = re.compile(r"[A-Za-z0-9._-]*")
_OTHER = "~"  # sorts after whatever a label value starts with

Path = tuple[str, ...]
Word = tuple[int, ...]
"""The kinds of the hosts in a domain, by number, in the order of their names."""


class TooManyError(Exception):
    """There are more ways than are tried; the message says of what."""


def guises(hosts: Sequence[Host], levels: Sequence[str], requests: Sequence[Request]) -> Iterator[list[Host]]:
    """Raises TooManyError when these are not all."""
    led = len({one.group or one.name for one in requests}) < len(requests)
    unknown = sorted({key for host in hosts for key in host.unknown.intersection(levels)})
    ways = 0
    for apart in (False, True) if unknown else (False,):
        known = [_settled(host, levels, number if apart else 0) for number, host in enumerate(hosts)]
        for named in _namings(known, levels, requests) if len(requests) > 1 else (known,):
            for others in _beside(known, levels) if led else ((),):
                ways += 1
                if ways > MOST:
                    raise TooManyError("its pod sets may come to lie in more ways than can be tried")
                yield [*named, *others]
    if unknown and len(requests) > 1:
        raise TooManyError(f"it places several pod sets, and {unknown[0]} of new nodes is known only once they are there")


def _settled(host: Host, levels: Sequence[str], number: int) -> Host:
    guess = {key: f"{_OTHER}{number:06}" for key in levels if key in host.unknown and key != HOSTNAME}
    return replace(host, labels={**host.labels, **guess}) if guess else host


# --- names ----------------------------------------------------------------------------------------------------------------


def _namings(hosts: Sequence[Host], levels: Sequence[str], requests: Sequence[Request]) -> Iterator[list[Host]]:
    """New nodes, whose hostname is no valid label value, named in each way that differs; old ones keep their order."""
    inside: dict[Path, list[Host]] = {}
    for host in hosts:
        inside.setdefault(tuple(host.labels.get(key, "") for key in levels if key != HOSTNAME), []).append(host)
    kinds = [_kinds(there, requests) for there in inside.values()]
    choices = [_orders(there, kind) for there, kind in zip(inside.values(), kinds, strict=True)]
    for words in product(*choices):
        parts = zip(inside.values(), kinds, words, strict=True)
        yield [host for there, kind, word in parts for host in _renamed(there, kind, word)]


def _kinds(hosts: Sequence[Host], requests: Sequence[Request]) -> list[int]:
    """Of each host: those of equal room that let in the same pod sets have one number."""
    facts = [(tuple(sorted(host.free.items())), tuple(host.name in one.hosts for one in requests)) for host in hosts]
    numbers = {fact: number for number, fact in enumerate(sorted(set(facts)))}
    return [numbers[fact] for fact in facts]


def _orders(hosts: Sequence[Host], kinds: Sequence[int]) -> Iterable[Word]:
    """The orders of kinds in one domain: the old nodes' own with the new ones anywhere in between."""
    if len(set(kinds)) == 1:
        return [tuple(kinds)]
    if len(hosts) > LARGEST:
        raise TooManyError(f"it has more than {LARGEST} nodes of several kinds in one domain to choose from")
    names = [host.labels.get(HOSTNAME, "") for host in hosts]
    old = sorted((name, kind) for name, kind in zip(names, kinds, strict=True) if _LABEL_VALUE.fullmatch(name))
    fixed = [kind for _, kind in old]
    fresh = Counter(kinds)
    fresh.subtract(fixed)

    @cache
    def words(done: int, left: tuple[int, ...]) -> frozenset[Word]:
        if done == len(fixed) and not any(left):
            return frozenset({()})
        found = {(fixed[done], *rest) for rest in words(done + 1, left)} if done < len(fixed) else set()
        for kind, count in enumerate(left):
            if count:
                fewer = (*left[:kind], count - 1, *left[kind + 1 :])
                found |= {(kind, *rest) for rest in words(done, fewer)}
        return frozenset(islice(found, MOST + 1))

    return sorted(words(0, tuple(fresh[kind] for kind in range(max(kinds) + 1))))


def _renamed(hosts: Sequence[Host], kinds: Sequence[int], word: Word) -> Iterator[Host]:
    alike: dict[int, list[Host]] = {}
    for host, kind in zip(hosts, kinds, strict=True):
        alike.setdefault(kind, []).append(host)
    for place, kind in enumerate(word):
        host = alike[kind].pop()
        yield replace(host, labels={**host.labels, HOSTNAME: f"{place:06}"})


# --- other nodes ----------------------------------------------------------------------------------------------------------

Tree = Mapping[Path, Sequence[Path]]


def _beside(hosts: Sequence[Host], levels: Sequence[str]) -> Iterator[list[Host]]:
    """Nodes that take none of the pods, in each set of domains in which they make a difference, none at all first."""
    paths = sorted({tuple(host.labels[key] for key in levels[:-1]) for host in hosts if host.labels.keys() >= set(levels)})
    below: dict[Path, list[Path]] = {}
    for path in {path[:depth] for path in paths for depth in range(1, len(levels))}:
        below.setdefault(path[:-1], []).append(path)
    for touched in _sets(below, ()):
        yield [_other(path, levels) for path in touched]


def _sets(below: Tree, path: Path) -> Iterator[tuple[Path, ...]]:
    """The lowest domains with other nodes, in each way; a domain has them, too, when one of its parts does."""
    for chosen in product(*(_within(below, part) for part in sorted(below.get(path, ())))):
        yield tuple(each for part in chosen for each in part)


def _within(below: Tree, path: Path) -> Iterable[tuple[Path, ...]]:
    deeper = islice((found for found in _sets(below, path) if found), MOST + 1)
    return ((), (path,), *deeper)


def _other(path: Path, levels: Sequence[str]) -> Host:
    name = f"{_OTHER}beside {'/'.join(path)}"
    return Host(name, dict(zip(levels, (*path, *[name] * (len(levels) - len(path))), strict=True)), (), {})
