"""Files and folders that documents name are there: whoever moves one mends what points to it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = "benchmarks|conformance|contract|docker|experiments|faults|harness|reference_model|tests|verification"
# What former versions had.
OF_THE_PAST = {ROOT / "CHANGELOG.md", ROOT / "docs" / "upgrading.md"}
DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "faults" / "README.md"} - OF_THE_PAST)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_paths_that_a_document_names_exist(document: Path) -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", document.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_modules_to_begin_with_exist() -> None:
    rows = re.findall(r"^\| `([\w/]+/)` \| .* \| (.*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert {folder.rstrip("/") for folder, _ in rows} == {*FOLDERS.split("|"), "docs"}
    begin_with = [(folder, name) for folder, names in rows for name in re.findall(r"`([\w./]+)`", names)]
    assert [row for row in begin_with if not (ROOT / row[0] / row[1]).exists() and not (ROOT / row[1]).exists()] == []


def test_import_linter_keeps_all_fault_kinds_from_all_mechanisms() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (kept,) = (one for one in contracts if one["name"].startswith("Fault kinds reach a cluster through Protocols"))
    named = [*kept["source_modules"], *kept["forbidden_modules"]]
    kinds = [path for path in (ROOT / "faults").glob("*/*.py") if path.name != "__init__.py"]
    folders = [path for path in (ROOT / "faults").glob("*/*") if (path / "__init__.py").is_file()]
    for path in (*kinds, *folders):
        module = ".".join(("kafka_chaos", *path.relative_to(ROOT).with_suffix("").parts))
        assert any(module == one or module.startswith(f"{one}.") for one in named), f"{module} is in neither list"
