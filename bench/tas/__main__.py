"""`python -m bench.tas --cases N --seed S`: does capacity/tas assign as the real Kueue does? Exits 1 if it ever does not."""

import argparse
import json
import re
import sys
import time
from collections import Counter
from typing import Any

from bench.tas.cases import Case, cases, for_kueue
from bench.tas.harness import answers
from capacity.tas.domains import simulate
from capacity.tas.guarantee import assign
from capacity.tas.room import RefusalError


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.tas")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    tally, began = Counter[str](), time.monotonic()
    drawn = list(cases(options.cases, options.seed))
    for case, answer in zip(drawn, answers(map(for_kueue, drawn)), strict=True):
        tally[_compare(case, answer)] += 1
    for why, count in sorted(tally.items()):
        if why not in KINDS:
            print(f"{count:8} wrong: {why}")
    tally["wrong"] = options.cases - sum(tally[kind] for kind in KINDS)
    took = time.monotonic() - began
    print(f"cases={options.cases} " + " ".join(f"{kind}={tally[kind]}" for kind in (*KINDS, "wrong")) + f" seconds={took:.1f}")
    sys.exit(1 if tally["differ"] else 0)


_NAMES = re.compile(r"\bn\d+\b|-?\b\d+\b|\bset-\d\b")
KINDS = ("placed", "refused", "differ")


def _compare(case: Case, answer: dict[str, Any]) -> str:
    """placed or refused by both alike, or differ, or what is wrong with a placement that both agree on."""
    theirs = _kueue(answer)
    ours = _ours(case)
    if ours != theirs:
        print(json.dumps({"case": for_kueue(case), "kueue": theirs, "ours": ours}), file=sys.stderr)
        return "differ"
    if answer["assigned"] is None:
        return "refused"
    judged = assign(case.requests, case.hosts, case.levels)
    return _NAMES.sub("…", judged) if isinstance(judged, str) else "placed"


def _kueue(answer: dict[str, Any]) -> Any:
    """The assignment, or how many of how many fit if it says so, or else that it was refused."""
    if answer["assigned"] is not None:
        return answer["assigned"]
    only = re.search(r"allows to fit only (-?\d+) out of (\d+) ", answer["reason"])
    none = re.search(r"doesn't allow to fit any of (\d+) ", answer["reason"])
    return [int(only[1]), int(only[2])] if only else [0, int(none[1])] if none else "refused"


def _ours(case: Case) -> Any:
    try:
        return simulate(case.requests, case.hosts, case.levels)
    except RefusalError as refusal:
        return [refusal.fits, refusal.wanted] if refusal.counted else "refused"


if __name__ == "__main__":
    main()
