"""Cases that are kept for good, each with what the real scheduler did: disagreements that were mended, and telling ones."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.agreement.cases import Case, case
from bench.agreement.results import Result

FOLDER = Path(__file__).parent.parent.parent / "tests" / "agreement" / "cases"


@dataclass
class Kept:
    """`why` it is kept; `probes` the node that each probe's pod was bound to, "" if none; `outcome` what is true of the gang (fit
    or nofit, "" when it isn't asked): bound with the marks of a plan, or never bound and impossible to the oracle.
    """

    why: str
    probes: list[str]
    outcome: str
    case: Case

    @classmethod
    def of(cls, why: str, result: Result) -> "Kept":
        """A gang's outcome is taken for true only if the scheduler, or the scheduler and the oracle, bear it out."""
        outcome = result.outcome if not result.disagreements() and (result.steered == "" or result.oracle is False) else ""
        probes = [probe.node.replace(result.standing, result.case.id) for probe in result.probes]
        return cls(why, probes, outcome, result.case)


def load(folder: Path = FOLDER) -> dict[str, Kept]:
    """By file name without extension, in order."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        value = json.loads(file.read_text())
        found[file.stem] = Kept(**{**value, "case": case(value["case"])})
    return found


def save(name: str, kept: Kept, folder: Path = FOLDER) -> Path:
    """Write one; a case of that name is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.json"
    file.write_text(json.dumps(asdict(kept), indent=1) + "\n")
    return file
