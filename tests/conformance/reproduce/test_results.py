"""Counts of what was shown, their file and their page."""

from pathlib import Path

import pytest

from kafka_chaos.conformance.reproduce.claims import Claim, claim, matrix
from kafka_chaos.conformance.reproduce.playing.actions import refusal, remarks
from kafka_chaos.conformance.reproduce.results import Results, load, page
from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.protocol.known_defects import KNOWN_DEFECTS

DOCS = Path(__file__).parents[3] / "docs"
KILLED = Lane(lane="1", acks="1", faults=("kill",))
LOST = claim(KILLED, Anomaly.LOST_WRITE, "acks=1")
TWICE = claim(KILLED, Anomaly.DUPLICATE, "acks=1")
SWAPPED = claim(KILLED, Anomaly.REORDERED, "acks=1")


def results(*claims: Claim, **refused: str) -> Results:
    found = Results("Kafka 3.9.1 with ZooKeeper")
    found.add(claims, refused={one.key: refused.get(one.anomaly) for one in claims})
    return found


def test_results_add_up_over_files(tmp_path: Path) -> None:
    path = tmp_path / "reproduced.json"
    first = results(LOST, TWICE)
    first.note({LOST.key: True}, "")
    first.save(path)
    again = load(path, "another cluster")
    assert again == first
    again.note({LOST.key: False}, "step 2 took too long")
    again.save(path)
    found = load(path, "")
    assert found == again
    assert (found.of[LOST.key].played, found.of[LOST.key].shown) == (2, 1)
    assert found.of[TWICE.key].played == 0
    assert path.with_suffix(".md").read_text() == page(found)


def test_the_page_has_every_claim_and_every_reason() -> None:
    found = results(LOST, TWICE, SWAPPED, reordered="brokers never do that")
    found.note({LOST.key: True}, "")
    found.note({LOST.key: False}, "the machine was slow")
    text = page(found)
    assert "**1 of 3 claims are shown.**" in text
    assert "| kill | `lost_write` | 4 | 1 of 2 |" in text
    assert "| kill | `duplicate` | 5 | not yet |" in text
    assert "| kill | `reordered` | 5 | not played |" in text
    assert "- acks=1, kill: `reordered`. Brokers never do that" in text
    assert "- acks=1, kill: `lost_write`. The machine was slow" in text
    for defect in KNOWN_DEFECTS:
        assert f"- `{defect}`: " in text


@pytest.mark.parametrize("text", ["no JSON", "{}", '{"format_version": 2, "kafka": "", "claims": []}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(text)
    with pytest.raises(UsageFailure, match="holds no results of stories"):
        load(path, "")


def test_the_page_of_the_documentation_is_that_of_its_results_and_has_all_of_the_matrix() -> None:
    found = load(DOCS / "reproduced.json", "")
    assert (DOCS / "reproduced.md").read_text() == page(found)
    claims = matrix()
    assert set(found.of) == {one.key for one in claims}
    for one in claims:
        assert found.of[one.key].refused == refusal(one.story)
        assert found.of[one.key].remark == remarks(one.story)
        assert found.of[one.key].steps == len(one.story.steps)
