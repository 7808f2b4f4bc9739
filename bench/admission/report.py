"""The report: one row a controller, kept by the number of workloads, as a table and as JSON."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.admission.measure import Latency, Load, Pace

Json = dict[str, Any]

GOAL_SHARE, GOAL_MIB, GOAL_LATENCY = 0.8, 300, 1.5

INTRODUCTION = """# Admission under load, beside Kueue's own check

Made by `make bench-admission N=…`. For each row a new control plane (etcd, kube-apiserver 1.36.3, Kueue 0.17.0 with `qps: 200`
and `burst: 400`, on one machine with the benchmark itself), and a queue on hold with N Jobs of one pod, then all let go at once,
until Kueue has admitted the last. The provisioner is the same small program for both: it answers each request on sight, with one
patch. kube-scheduler, kube-controller-manager and kwok are stopped: they act only after admission.

*writes* are those of the check's controller for one workload, from the API server's audit log, refused ones too; *events* come
beside them. *to request* is from QuotaReserved to the ProvisioningRequest, *to Ready* from the provisioner's answer to the entry,
both as a watch shows them. *CPU* is processor time for a thousand workloads. *no check* is Kueue alone, which no check can beat.
*pace* is the API server's own rate of status patches, eight at once, on the same control plane just before; *share* is the rate
of the check's own writes against it, *busy* that of everybody's writes, events too: near 1 the API server is what limits. In the
row *reserved before* the quota of all is reserved when the service starts, so that Kueue's own rate doesn't hold it up: from the
first request to the last Ready.
"""

SINGLES = f"""Bare Workloads, each made when the one before is Ready. *floor*: the writes that the API demands (n templates, the
request, the provisioner's answer, the check's entry) by a client that does nothing else, one after another. Goal: {GOAL_LATENCY}
times that."""

COLUMNS = (
    "workloads", "row", "writes", "refused", "events", "to request p50 s", "p99 s", "to Ready p50 s", "p99 s", "total s",
    "workloads/s", "pace /s", "share", "busy", "admission MiB", "Kueue MiB", "admission CPU s", "Kueue CPU s", "API server CPU s",
)  # fmt: skip
SINGLE = ("row", "pod sets", "create to Ready p50 ms", "reserved to Ready p50 ms", "p99 ms", "floor p50 ms", "ratio", "goal")


@dataclass(slots=True)
class Row:
    """One controller on one control plane."""

    name: str
    pace: Pace
    load: Load
    singles: Sequence[Latency] = ()

    @property
    def per_workload(self) -> float:
        return self.load.writes.total / self.load.count

    @property
    def share(self) -> float:
        """The check's own writes per second, as a part of what the API server takes."""
        return self.load.writes.total / self.load.seconds / self.pace.per_second

    @property
    def busy(self) -> float:
        """The same for the writes of all programs."""
        return self.load.writes.everybody / self.load.seconds / self.pace.per_second

    def line(self) -> str:
        """The row in a few words, for the terminal."""
        peak = " ".join(f"{name}={mib}MiB" for name, mib in self.load.peak_mib.items())
        return (
            f"{self.name}: workloads={self.load.count} writes/workload={self.per_workload:.2f} seconds={self.load.seconds:.1f} "
            f"{peak} share={self.share:.2f} busy={self.busy:.2f}"
        )

    def record(self) -> Json:
        """All of it but the single spans, of which the percentiles tell."""
        load = self.load
        spans = {"to_request": load.reserved_to_requested, "to_ready": load.provisioned_to_ready}
        return {
            "row": self.name,
            "workloads": load.count,
            "seconds": load.seconds,
            "writes_per_workload": self.per_workload,
            "writes": dict(sorted(load.writes.by_kind.items())),
            "refused": load.writes.conflicts,
            "events": dict(sorted(load.writes.events.items())),
            **{f"{name}_{label}": part(each, at) for name, each in spans.items() for label, at in (("p50", 0.5), ("p99", 0.99))},
            "pace": asdict(self.pace),
            "share": self.share,
            "busy": self.busy,
            "peak_mib": load.peak_mib,
            "cpu_seconds": load.cpu_seconds,
            "singles": [_single(each) for each in self.singles],
        }


def part(spans: Sequence[float], at: float) -> float | None:
    """The span below which that part of all lies, None of none."""
    return spans[min(len(spans) - 1, int(len(spans) * at))] if spans else None


def _single(found: Latency) -> Json:
    ready, floor = found.reserved_to_ready, found.floor
    return {
        "pod_sets": found.pod_sets,
        "created_to_ready_p50": part(found.created_to_ready, 0.5),
        "reserved_to_ready_p50": part(ready, 0.5),
        "reserved_to_ready_p99": part(ready, 0.99),
        "floor_p50": part(floor, 0.5),
        "ratio": statistics.median(ready) / statistics.median(floor),
    }


def write(path: Path, rows: Sequence[Row], machine: str) -> None:
    """Both reports. Earlier rows for other numbers of workloads are kept, those for the same are replaced."""
    made = [row.record() | {"machine": machine, "asked": rows[0].load.count} for row in rows]
    kept = json.loads(path.with_suffix(".json").read_text()) if path.with_suffix(".json").exists() else []
    records = [each for each in kept if each["asked"] != rows[0].load.count] + made
    records.sort(key=lambda each: each["asked"])
    path.with_suffix(".json").write_text(json.dumps(records, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(records))


def markdown(records: Sequence[Json]) -> str:
    """The tables, from what is in the JSON."""
    machines = [f"- {asked} workloads: {each}" for asked, each in dict.fromkeys((r["asked"], r["machine"]) for r in records)]
    singles = [[r["row"], *_single_cells(each)] for r in records for each in r["singles"]]
    return "\n".join(
        [
            INTRODUCTION,
            *machines,
            "",
            *_table(COLUMNS, [_cells(each) for each in records]),
            "",
            "## Latency of one workload",
            "",
            SINGLES,
            "",
            *_table(SINGLE, singles),
            "",
        ]
    )


def _cells(record: Json) -> list[str]:
    count = record["workloads"]
    cpu = {name: f"{seconds / count * 1000:.1f}" for name, seconds in record["cpu_seconds"].items()}
    peak = record["peak_mib"]
    spans = [record[f"{name}_{label}"] for name in ("to_request", "to_ready") for label in ("p50", "p99")]
    return [
        str(count),
        record["row"],
        f"{record['writes_per_workload']:.2f}",
        str(record["refused"]),
        f"{sum(record['events'].values()) / count:.2f}",
        *("-" if each is None else f"{each:.3f}" for each in spans),
        f"{record['seconds']:.1f}",
        f"{count / record['seconds']:.1f}",
        f"{record['pace']['per_second']:.0f}",
        f"{record['share']:.2f}" if record["writes_per_workload"] else "-",
        f"{record['busy']:.2f}",
        str(peak.get("admission", "-")),
        str(peak["Kueue"]),
        *(cpu.get(name, "-") for name in ("admission", "Kueue", "API server")),
    ]


def _single_cells(single: Json) -> list[str]:
    spans = ("created_to_ready_p50", "reserved_to_ready_p50", "reserved_to_ready_p99", "floor_p50")
    met = "met" if single["ratio"] <= GOAL_LATENCY else "not met"
    return [str(single["pod_sets"]), *(f"{single[each] * 1e3:.1f}" for each in spans), f"{single['ratio']:.2f}", met]


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(each)} |" for each in (columns, ["---"] * len(columns), *rows)]
