"""What the benchmarks that write tables of results into pages share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MODES = {"zookeeper": "ZooKeeper", "kraft": "KRaft"}


def read_rows(results: Path) -> list[dict[str, Any]]:
    """The results that are there; none before the first run."""
    return json.loads(results.read_text()) if results.exists() else []


def write_rows(rows: list[dict[str, Any]], results: Path) -> None:
    """Keep the results."""
    results.write_text(json.dumps(rows, indent=1) + "\n")


def write_table(page: Path, begin: str, table: str, end: str) -> None:
    """Replace what the page has between two lines."""
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n{table}\n{end}{rest.partition(end)[2]}")
