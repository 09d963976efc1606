"""Whole texts, compared with files. UPDATE_SNAPSHOTS=1 rewrites the files: read the difference before committing."""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def assert_same(name: str, text: str) -> None:
    """The text equals that of snapshots/`name`."""
    path = FOLDER / name
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_SNAPSHOTS=1 writes it anew"
