"""docs/model.md is what the model says today."""

from pathlib import Path

import model_page
import pytest

WRITTEN = Path(__file__).parents[2] / "docs" / "model.md"


def written() -> str:
    return WRITTEN.read_text("utf-8")


@pytest.mark.parametrize("name", ["introduction", "predictions", "traces", "lockstep", "upgrades", "omissions"])
def test_a_section_that_shipped_answers_fill_is_up_to_date(name: str) -> None:
    section = model_page.page(name).strip()
    assert section.startswith(("# The", "## "))
    assert section in written()


@pytest.mark.slow
def test_the_whole_page_is_up_to_date() -> None:
    assert model_page.page() == written()
