"""The page of all scenarios: the same for the same results, complete, and refused where results name nothing known."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kafka_chaos.harness.errors import UsageFailure
from kafka_chaos.harness.scenario import document
from kafka_chaos.harness.scenario.differences import Difference
from kafka_chaos.harness.scenario.document import differences, document_files, seen_how, write_document
from kafka_chaos.harness.scenario.markdown import code, fact, prose, table
from kafka_chaos.harness.scenario.record import ScenarioRecord
from kafka_chaos.harness.scenario.registry import Outline, outlines
from kafka_chaos.harness.scenario.results import collect, read_results, result_of, results_json
from tests.harness.scenario.samples import planted_difference, truncation

ROOT = Path(document.__file__).resolve().parents[2]
KNOWN = {
    "acks-1-recovery": Outline(
        "acks-1-recovery", "002", "Lost | for good", "X loses *it*.", "experiments/seeds/acks.py"
    ),
    "acks-0": Outline("acks-0", "002", "__Nothing__ is told", "", "experiments/seeds/acks.py"),
}
DIFFERENT = (
    Difference("002", "X drops M3.", "X keeps M3.", "0.11.0", "acks-1-recovery"),
    Difference("002", "acks=1 is the default.", "acks=all is.", "3.0.0", None),
)


def page(*records: ScenarioRecord, root: str | None = "..") -> str:
    return document_files(collect(map(result_of, records)), KNOWN, DIFFERENT, root=root)["scenarios.md"]


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def test_the_index_names_all_scenarios_and_what_was_run() -> None:
    slow = truncation()
    slow.seconds = 40
    rows = section(page(truncation(), truncation(), slow), "All of them").splitlines()
    assert "| [`acks-1-recovery`](#acks-1-recovery) | 002 | Lost \\| for good | conforms | 3/3 | 12 |" in rows
    assert r"| `acks-0` | 002 | \_\_Nothing\_\_ is told | not run |  |  |" in rows


def test_a_section_has_story_picture_expectations_facts_and_source() -> None:
    text = section(page(truncation()), "acks-1-recovery")
    for expected in (
        "[`experiments/seeds/acks.py`](../experiments/seeds/acks.py)",
        r"X loses \*it\*.",
        "](images/scenarios/acks-1-recovery.svg)",
        "Passed 1 of 1 runs: conforms; 12 s.",
        "**as told**: cluster `steady`, followers truncate by `kip320`.",
        '- ✓ M2 is gone: `["M1", "M3"]`\n- ✓ nobody was told\n- X\'s log: `Truncating to offset 1`\n',
        "times:\n\n| broker | seconds |\n| --- | --- |\n| `1` | `0.5` |\n| `2` | `1` |\n",
        "- 5. X is started again. X (broker 1) drops M2 (epoch 0)",
    ):
        assert expected in text


def test_a_violation_stays_visible_among_runs_that_passed() -> None:
    text = page(truncation(), planted_difference(), truncation())
    assert "| violation | 2/3 |" in text
    told = section(text, "acks-1-recovery")
    assert "Passed 2 of 3 runs: violation; 12 s (median; 12 to 12)." in told
    assert "Why not: `as told, step 5 (X is started again.) broker 1, log: …`" in told


def test_differences_are_told_with_what_shows_them() -> None:
    rows = section(page(truncation()), "Where the documents and the brokers differ")
    assert "| 002 | X drops M3. | X keeps M3. | 0.11.0 | [`acks-1-recovery`](#acks-1-recovery) |" in rows
    assert "| 002 | acks=1 is the default. | acks=all is. | 3.0.0 |  |" in rows


def test_how_it_is_seen_is_what_the_module_says() -> None:
    lines = seen_how()
    from kafka_chaos.harness.scenario import looking

    assert " ".join(" ".join(lines).split()) == " ".join((looking.__doc__ or "").split())
    assert all(line.endswith("|") for line in lines if line.startswith("|"))


def test_equal_results_give_equal_files_and_can_be_written_from_the_page_s_own(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    record = truncation()
    record.scenario = next(iter(outlines()))
    results.write_text(json.dumps(results_json([record, record], seconds=25)))
    first = write_document([results], tmp_path / "a" / "scenarios.md")
    second = write_document([tmp_path / "a" / "scenarios.json"], tmp_path / "b" / "scenarios.md")
    assert [path.relative_to(tmp_path / "a") for path in first] == [path.relative_to(tmp_path / "b") for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    ElementTree.parse(tmp_path / "a" / "images" / "scenarios" / f"{record.scenario}.svg")
    assert "2/2" in (tmp_path / "b" / "scenarios.md").read_text()


def test_results_of_no_scenario_are_refused(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    record = truncation()
    record.scenario = "nix"
    results.write_text(json.dumps(results_json([record], seconds=1)))
    with pytest.raises(UsageFailure, match=r"results\.json: 'nix' is no scenario: expected one of leader-only"):
        write_document([results], tmp_path / "scenarios.md")
    assert not (tmp_path / "scenarios.md").exists()


def test_every_link_of_a_page_leads_somewhere() -> None:
    files = document_files(collect([result_of(truncation())]), KNOWN, DIFFERENT)
    text = files["scenarios.md"]
    anchors = {heading.lower() for heading in re.findall(r"^## (.+)$", text, re.MULTILINE)}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("#"):
            assert link[1:] in anchors
        else:
            assert link in files or (ROOT / "docs" / link).exists(), link


def test_text_stays_text_in_markdown() -> None:
    assert prose("a <b> `c|d*` *e* __f g_h") == r"a \<b> `c|d*` \*e\* \_\_f g_h"
    assert code("a `b` c") == "``a `b` c``"
    assert code("`a`") == "`` `a` ``"
    assert code({"ä": [1, None]}) == '`{"ä": [1, null]}`'
    assert code("x" * 1000).endswith("…`")
    assert table(["a", "b"], [["`x|y`", "z"]], right=[1]) == ["| a | b |", "| --- | ---: |", r"| `x\|y` | z |"]


def test_facts_of_every_shape() -> None:
    assert fact("n", 5) == ["- n: `5`"]
    assert fact("lines", "a\n```b") == ["", "lines:", "", "````text", "a", "```b", "````", ""]
    assert fact("quoted", ["first line", "second line"])[3:6] == ["```text", "first line", "second line"]
    assert fact("names", ["m1", "m2"]) == ['- names: `["m1", "m2"]`']
    assert fact("deep", {"key": "v" * 500})[3] == "```json"
    rows = fact("rows", [{"a": 1, "b": "x|y"}] * 50)
    assert rows[3:6] == ["| a | b |", "| --- | --- |", r"| `1` | `x\|y` |"]
    assert "… and 10 more rows" in rows
    assert fact("unequal", [{"a": 1}, {"b": 1}]) == ['- unequal: `[{"a": 1}, {"b": 1}]`']
    assert fact("none", []) == ["- none: `[]`"]


def test_the_differences_name_documents_that_there_are() -> None:
    assert differences()
    for one in differences():
        assert one.document in {outline.document for outline in outlines().values()}
        assert all((one.says, one.brokers_do, one.since))


def test_the_committed_page_was_generated() -> None:
    docs = ROOT / "docs"
    results = collect(read_results(docs / "scenarios.json"))
    files = document_files(results, outlines(), differences())
    for name, text in files.items():
        assert (docs / name).read_text(encoding="utf-8") == text, (
            f"docs/{name} is not what is generated now: "
            "run `kafka-chaos scenario document docs/scenarios.json --out docs/scenarios.md`"
        )
    pictures = {f"images/scenarios/{file.name}" for file in (docs / "images" / "scenarios").iterdir()}
    assert pictures == {name for name in files if name.endswith(".svg")}
