"""docs/model.md is what the model says today."""

from pathlib import Path

import model_page
import pytest

WRITTEN = Path(__file__).parents[2] / "docs" / "model.md"
SLOW = ("explorations", "assumptions", "transactions", "groups")
"""Tables that are searched for longer than shipped answers take."""


def written() -> str:
    return WRITTEN.read_text("utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "introduction",
        "predictions",
        "traces",
        "lockstep",
        "upgrades",
        "omissions",
        *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW),
    ],
)
def test_a_section_is_up_to_date(name: str) -> None:
    section = model_page.page(name).strip()
    assert section.startswith(("# The", "## "))
    assert section in written()


@pytest.mark.slow
def test_the_whole_page_is_up_to_date() -> None:
    assert model_page.page() == written()
