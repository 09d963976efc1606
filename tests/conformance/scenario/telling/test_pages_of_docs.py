"""The pages of all scenarios: the same for the same results, complete, and refused if results name nothing known."""

import json
from pathlib import Path

import pytest
from scenario_pages import Difference, differences, document_files, read_results, share_rows, write_document

from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.registry import Document, Scenario, Source, all_scenarios
from kafka_chaos.conformance.scenario.runner import results_json
from kafka_chaos.contract.command.errors import UsageFailure
from tests.conformance.scenario.samples import RECOVERY, SOURCE, planted_difference, sharing, truncation

ROOT = Path(__file__).parents[4]
OTHER = Document("Other *things*", "다른 문서", "20 May 2023")
FILE = "experiments/behaviours/replication/acks.yaml"
KNOWN = {
    "acks-1-recovery": Scenario("acks-1-recovery", SOURCE, "Lost | for good", "X loses *it*.", FILE, lambda play: None),
    "acks-0": Scenario("acks-0", Source(OTHER, "Opening", "서론"), "__Nothing__ fails", "", FILE, lambda play: None),
}
DIFFERENT = (
    Difference(RECOVERY, "X drops M3.", "X keeps M3.", "0.11.0", "acks-1-recovery"),
    Difference(RECOVERY, "acks=1 is the default.", "acks=all is.", "3.0.0", None),
)


def files(*records: ScenarioRecord, root: str | None = "..") -> dict[str, str]:
    return document_files(records, KNOWN, DIFFERENT, root=root)


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_index_lists_all_scenarios_by_document_and_what_was_run() -> None:
    slow = truncation()
    slow.seconds = 40
    index = files(truncation(), truncation(), slow)["scenarios.md"]
    row = "| [`acks-1-recovery`](scenarios/acks-1-recovery.md) | acks=1 | Lost \\| for good | conforms | 3/3 | 12 |"
    assert row in section(index, "Replica Recovery").splitlines()
    other = section(index, r"Other \*things\*")
    assert "Original title: “다른 문서” (20 May 2023)." in other
    assert r"| `acks-0` | Opening | \_\_Nothing\_\_ fails | not run |  |  |" in other.splitlines()
    assert index.endswith("```{toctree}\n:hidden:\n\nscenarios/acks-1-recovery\n```\n")


def test_a_violation_stays_visible_among_runs_that_passed() -> None:
    found = files(truncation(), planted_difference(), truncation())
    assert "| violation | 2/3 |" in found["scenarios.md"]
    text = found["scenarios/acks-1-recovery.md"]
    assert "- Verdict: violation; 2 of 3 runs passed; 12 s (median; 12 to 12)\n" in text
    assert "Reason: `a loss, step 5 (X is restarted.) broker 1, log: …`" in text


def test_a_share_group_has_a_row_for_each_step_that_changed_it() -> None:
    shares = share_rows(sharing().acts[0])
    assert list(shares) == [
        ("0. Two members join.", "–", "", ""),
        ("1. Member 1 asks for a record.", "–", "given 0 (delivery 1)", ""),
        ("2. It accepts; member 2 asks.", "0", "accept 0: NONE", "given 1 (delivery 1)"),
    ]


def written(folder: Path, name: str) -> Path:
    """Results of two runs of a scenario."""
    record = truncation()
    record.scenario = name
    results = folder / "results.json"
    results.write_text(json.dumps(results_json([record, record], seconds=25)))
    return results


def test_runs_add_up_with_a_former_index_and_what_only_that_has_keeps_its_page(tmp_path: Path) -> None:
    kept, again, *_ = all_scenarios()
    out, index = tmp_path / "scenarios.md", tmp_path / "scenarios.json"
    write_document([written(tmp_path, kept)], out)
    page = tmp_path / "scenarios" / f"{kept}.md"
    before = page.read_text()
    for runs in (2, 4):
        changed = write_document([index, written(tmp_path, again)], out)
        assert page not in changed
        assert page.read_text() == before
        assert f"{runs} of {runs} runs passed" in (tmp_path / "scenarios" / f"{again}.md").read_text()
        rows = {line.split("`")[1]: line for line in out.read_text().splitlines() if line.startswith("| [`")}
        assert "| 2/2 |" in rows[kept]
        assert f"| {runs}/{runs} |" in rows[again]
    assert [(one.scenario, one.runs.runs) for one in read_results(index).index] == [(kept, 2), (again, 4)]


def test_pages_of_scenarios_that_are_gone_are_removed_and_nothing_else(tmp_path: Path) -> None:
    name = next(iter(all_scenarios()))
    out = tmp_path / "scenarios.md"
    (page, *_) = [path for path in write_document([written(tmp_path, name)], out) if path.suffix == ".md"]
    stale, own = page.with_name("gone.md"), page.with_name("own.md")
    stale.write_text(page.read_text())
    own.write_text("# A page of somebody's own\n")
    write_document([tmp_path / "scenarios.json"], out)
    assert sorted(path.name for path in page.parent.iterdir()) == [f"{name}.md", "own.md"]


def test_results_of_no_scenario_are_refused(tmp_path: Path) -> None:
    results = written(tmp_path, "nix")
    with pytest.raises(UsageFailure, match=r"results\.json: 'nix' is not a scenario: expected one of leader-only"):
        write_document([results], tmp_path / "scenarios.md")
    assert not (tmp_path / "scenarios.md").exists()


def test_the_committed_pages_were_generated() -> None:
    docs = ROOT / "docs"
    former = read_results(docs / "scenarios.json").index
    for name, text in document_files((), all_scenarios(), differences(), former=former).items():
        assert (docs / name).read_text(encoding="utf-8") == text, (
            f"docs/{name} is not what is generated now: "
            "run `python docs/scenario_pages.py docs/scenarios.json --out docs/scenarios.md`"
        )
    assert {page.stem for page in (docs / "scenarios").iterdir()} == {one.scenario for one in former}
    assert {one.scenario for one in former} == set(all_scenarios())
