"""The table of faults that need no kind of their own, in faults/README.md: each is an experiment that is accepted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kafka_chaos.harness.experiment.file import parse_experiment

README = Path(__file__).parents[2] / "faults/README.md"
ROWS = re.findall(r"^\| ([^|]+) \| `(\{fault: [^`]+\})`", README.read_text(encoding="utf-8"), re.MULTILINE)
KRAFT = "{metadata_mode: kraft, controllers: 3}"


@pytest.mark.parametrize(("name", "entry"), ROWS, ids=[name for name, _ in ROWS])
def test_a_row_is_a_schedule(name: str, entry: str) -> None:
    cluster = KRAFT if "KRaft" in name else "{}"
    head = f"name: said\ncluster: {cluster}\nworkload: {{duration: 60}}\nlanes: [{{lane: orders}}]\n"
    text = f"{head}schedule:\n  - {entry}\n"
    assert parse_experiment(text, "said.yaml").phases[0].faults()


def test_the_table_is_found() -> None:
    assert len(ROWS) >= 6
