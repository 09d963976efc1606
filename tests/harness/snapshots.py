"""Texts that are compared as a whole; UPDATE_SNAPSHOTS=1 writes them anew, to be looked at before they are kept."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "snapshots"


def assert_same(name: str, text: str) -> None:
    """The text is the one that stands in snapshots/`name`."""
    path = FOLDER / name
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_SNAPSHOTS=1 writes it anew"
