"""Tables of a run, as tests look at them."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """The rows of a table, file by file; none where there is no file."""
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
