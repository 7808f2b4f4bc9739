"""What counts as seen, and what becomes of a row. Expected values: the page's own words on green, twin only and red."""

import re
from pathlib import Path
from typing import Any

import pytest

from e2e.conformance import __main__
from e2e.conformance.__main__ import claimants
from e2e.conformance.evidence import changes
from e2e.conformance.plugin import Outcome
from e2e.conformance.report import Verdict, counts, judge, page
from e2e.conformance.rows import Kind, Row, RowsError, bare, check, load

SINCE = {"lastTransitionTime": "2026-11-30T12:00:00Z"}
MARK = re.compile(r"mark\.row\(([^)]*)\)")
VERSIONS = {"kueue": "v0.17.0", "kubernetes": "v1.36.3"}


def workload(manager: str, active: bool = True, **conditions: str) -> dict[str, Any]:
    """A version of a Workload whose conditions, like `Evicted="True Preempted"`, all belong to one manager."""
    words = {kind: text.split() for kind, text in conditions.items()}
    found = [{"type": kind, "status": status, "reason": reason, **SINCE} for kind, (status, reason) in words.items()]
    owned: dict[str, Any] = {f'k:{{"type":"{kind}"}}': {"f:status": {}} for kind in conditions}
    fields = {"f:status": {"f:conditions": owned}, "f:spec": {"f:active": {}}}
    return {
        "metadata": {"managedFields": [{"manager": manager, "fieldsV1": fields}]},
        "spec": {"active": active},
        "status": {"conditions": found},
    }


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        pytest.param(
            {},
            workload("kueue-admission", QuotaReserved="True QuotaReserved"),
            ["QuotaReserved=True(QuotaReserved)"],
            id="reserved",
        ),
        pytest.param({}, workload("kueue-admission", QuotaReserved="False Pending"), [], id="nothing yet"),
        pytest.param(
            workload("kueue-admission", QuotaReserved="False Pending"),
            workload("kueue-admission", QuotaReserved="False Inadmissible"),
            [],
            id="still nothing",
        ),
        pytest.param(
            workload("kueue-admission", QuotaReserved="True QuotaReserved"),
            workload("kueue-admission", QuotaReserved="False Pending"),
            ["QuotaReserved=False(Pending)"],
            id="quota lost",
        ),
        pytest.param({}, workload("kueue", Evicted="True Preempted"), ["Evicted=True(Preempted)"], id="evicted"),
        pytest.param({}, workload("corral-admission", Evicted="True AdmissionCheck"), [], id="evicted by us"),
        pytest.param(workload("kueue"), workload("kueue", active=False), ["active=false"], id="deactivated"),
        pytest.param(workload("kubectl"), workload("kubectl", active=False), [], id="deactivated by a user"),
        pytest.param(workload("kueue", Evicted="True X"), workload("kueue", Evicted="True X"), [], id="same"),
    ],
)
def test_only_what_kueue_wrote_is_seen(before: dict[str, Any], after: dict[str, Any], seen: list[str]) -> None:
    assert changes(before, after) == seen


def row(kind: Kind, note: str = "", id_: str = "3.1-01") -> Row:
    return Row(id=id_, case="case", in_tree="a", ours="b", kind=kind, note=note)


def outcome(result: str, *evidence: str) -> Outcome:
    return Outcome(test="t", file="f", rows=["3.1-01"], fixtures=[], outcome=result, evidence=list(evidence))


@pytest.mark.parametrize(
    ("kind", "note", "outcomes", "verdict"),
    [
        pytest.param(Kind.REAL, "", [outcome("passed", "Admitted")], Verdict.GREEN, id="seen"),
        pytest.param(Kind.CORE, "", [outcome("passed", "Admitted")], Verdict.GREEN, id="core seen"),
        pytest.param(Kind.TWIN, "", [outcome("passed", "Admitted")], Verdict.TWIN, id="twin stays twin"),
        pytest.param(Kind.REAL, "", [outcome("passed")], Verdict.RED, id="should have been seen"),
        pytest.param(Kind.CORE, "", [outcome("passed")], Verdict.TWIN, id="core not seen"),
        pytest.param(Kind.CORE, "an internal helper", [], Verdict.TWIN, id="only a note"),
        pytest.param(Kind.REAL, "later", [], Verdict.RED, id="a note is no test"),
        pytest.param(Kind.REAL, "", [outcome("passed", "Admitted"), outcome("failed")], Verdict.RED, id="one failed"),
        pytest.param(Kind.TWIN, "note", [outcome("skipped")], Verdict.RED, id="skipped"),
        pytest.param(Kind.TWIN, "note", [outcome("")], Verdict.RED, id="never run"),
    ],
)
def test_verdicts(kind: Kind, note: str, outcomes: list[Outcome], verdict: Verdict) -> None:
    [judged] = judge({"3.1-01": row(kind, note)}, outcomes)
    assert judged.verdict == verdict


def test_the_page_changes_with_verdicts_not_with_versions_of_objects() -> None:
    rows = {"3.1-01": row(Kind.REAL)}
    one, two, red = (judge(rows, [each]) for each in (outcome("passed", "A @1"), outcome("passed", "A @2"), outcome("failed")))
    assert counts(one) == "rows=1 green=1 twin_only=0 red=0"
    assert page(one, VERSIONS) != page(two, VERSIONS)
    assert page(one, VERSIONS, evidence=False) == page(two, VERSIONS, evidence=False) != page(red, VERSIONS, evidence=False)


async def test_what_fails_is_run_once_more_and_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(test: str, result: str) -> Outcome:
        return Outcome(test=test, file="f", rows=["3.1-01"], fixtures=["controlplane"], outcome=result, evidence=["Admitted"])

    asked: list[dict[str, list[str]]] = []

    async def run(parts: dict[str, list[str]], at_once: int) -> list[Outcome]:
        asked.append(parts)
        return [made("slow", "passed"), made("broken", "failed")]

    monkeypatch.setattr(__main__, "run", run)
    found = await __main__.run_again([made("good", "passed"), made("slow", "failed"), made("broken", "")])
    assert asked == [{"admission-again": ["slow", "broken"]}]
    before = {each.test: (each.outcome, each.before) for each in found}
    assert before == {"good": ("passed", ""), "slow": ("passed", "failed"), "broken": ("failed", "not run")}
    words = page(judge({"3.1-01": row(Kind.REAL)}, found), VERSIONS)
    assert "run a second time: `slow`, at first failed" in words
    many = [made(str(number), "failed") for number in range(11)]
    assert await __main__.run_again(many) == many


LINE = "- {{id: {}, case: c, in_tree: a, ours: b, kind: real}}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(LINE.format("3.2-01"), "not of this file", id="section"),
        pytest.param(LINE.format("3.1-01") * 2, "there twice", id="twice"),
        pytest.param("- {id: 3.1-01}\n", "missing required field", id="field"),
        pytest.param("- {id: 3.1-01, verdict: green}\n", "unknown field", id="unknown"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "3.1.yaml").write_text(text)
    with pytest.raises(RowsError, match=rf"^3.1.yaml: .*{words}"):
        load(tmp_path)


def test_sections_and_numbers_are_in_their_order(tmp_path: Path) -> None:
    for section, ids in {"W": ["W10", "W9"], "3.10": ["3.10-01"], "3.9": ["3.9-10", "3.9-09"]}.items():
        (tmp_path / f"{section}.yaml").write_text("".join(map(LINE.format, ids)))
    assert list(load(tmp_path)) == ["3.9-09", "3.9-10", "3.10-01", "W9", "W10"]


def test_markers_and_rows_must_meet() -> None:
    rows = {"3.1-01": row(Kind.REAL), "3.1-02": row(Kind.CORE, "a note", "3.1-02")}
    check(rows, {"t": ["3.1-01"]})
    with pytest.raises(RowsError, match=r"t: 3\.1-99"):
        check(rows, {"t": ["3.1-01", "3.1-99"]})
    assert bare(rows, []) == ["3.1-01"]
    assert bare(rows, ["3.1-01"]) == []


def test_each_row_of_the_table_has_a_test_or_a_note() -> None:
    """Textual and cheap; `make conformance` asks pytest itself."""
    claims = {str(file): re.findall(r'"([^"]+)"', "".join(MARK.findall(file.read_text()))) for file in claimants()}
    rows = load()
    check(rows, claims)
    assert bare(rows, (id_ for ids in claims.values() for id_ in ids)) == []
