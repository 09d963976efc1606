"""Documents with anything in them: each is refused by its file or read, and never ends in another error."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.inputs.documents.predictions import LanePrediction
from kafka_chaos.verification.inputs.run_directory import open_run
from kafka_chaos.verification.judging.causes import causes_of
from kafka_chaos.verification.judging.evidence import LaneEvidence
from kafka_chaos.verification.judging.judge import judge
from kafka_chaos.verification.tables.facts import LaneFacts
from tests.verification.samples.mutations import conforming
from tests.verification.samples.run_dirs import prediction, write_json

DOCUMENTS = ("lanes.json", "prediction.json", "events.jsonl", "checkpoints.json", "groups.json")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = conforming()
    group = {"members": 2, "static": False, "commits": "after"}
    rows.lanes = [
        {"lane": "a", "faults": ["kill"], "topic": "a", "kafka_version": "4.3.1", "metadata_mode": "kraft"},
        {"lane": "g", "partitions": 3, "group": group},
        {"lane": "t", "idempotence": True, "transactional": {"producers": 2}, "loop": {"source": "g", "group": group}},
    ]  # fmt: skip
    rows.transactions, rows.assignments, rows.commits = [], [], []
    place = {"lane": "a", "partition": 0}
    rows.event("run_started", run_id="r", experiment="e", lanes=["a"], collects=["log", "replicas"])
    rows.event("phase_started", phase="p", lanes=["a", "g"]).event("phase_ended", phase="p")
    rows.event("outside_faults", kinds=["kill"], lanes=["a"])
    rows.event("leader_elected", **place, broker=2, leader_epoch=3, start_offset=40, isr=[2, 3])
    rows.event("isr_changed", **place, before=[2, 3], isr=[2])
    rows.event("log_truncated", **place, broker=1, offset=40, reason="asked", log_end=50)
    met = {"defect": "librdkafka-4953", "lane": "a", "producer_id": 0, "evidence": "a message timed out"}
    rows.event("defect_precondition", **met)
    rows.prediction = prediction(["a", "g", "t"])
    folder = rows.write(tmp_path_factory.mktemp("runs") / "run", files=1)
    write_json(folder / "groups.json", {"groups": {"g-group": {"g/0": 3, "g/1": 4}}})
    open_run(folder)
    return folder


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["", "a", "g", "a/0", "g/01", "-1", 2**31, 2**63, -1, 0, 1e300, "kill", "ok", [], {}, [[]], [{}]])
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container of a document, with each of its keys."""
    found: list[tuple[Any, Any]] = []
    if isinstance(document, dict | list):
        for key in list(document) if isinstance(document, dict) else range(len(document)):
            found += [(document, key), *places(document[key])]
    return found


def change(draw: st.DataObject, document: Any) -> None:
    """Change a place of the document: another value, none, another key, the value of another place."""
    container, key = draw.draw(st.sampled_from(places(document)))
    other, other_key = draw.draw(st.sampled_from(places(document)))
    match draw.draw(st.sampled_from(["set", "drop", "rename", "swap"])):
        case "set":
            container[key] = draw.draw(VALUES)
        case "drop":
            del container[key]
        case "rename" if isinstance(container, dict):
            container[draw.draw(st.text(max_size=5) | st.sampled_from(["ts_ns", "type", "lane", "a/00"]))] = container[
                key
            ]
        case _:
            value = json.loads(json.dumps(other[other_key]))
            container[key] = value


def text_of(draw: st.DataObject, name: str, text: str) -> bytes:
    """The document changed in one or two places, and perhaps a piece of its text."""
    lines = name.endswith(".jsonl")
    document = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    for _ in range(draw.draw(st.integers(0, 2))):
        if places(document):
            change(draw, document)
    changed = ("\n".join(map(json.dumps, document)) if lines else json.dumps(document)).encode()
    if draw.draw(st.integers(0, 3)) == 0:
        begin = draw.draw(st.integers(0, len(changed)))
        end = begin + draw.draw(st.integers(0, 20))
        piece = draw.draw(st.binary(max_size=6) | st.sampled_from([b'"a":1,"a":2', b"NaN", b"1e999", b"9" * 5000]))
        changed = changed[:begin] + piece + changed[end:]
    return changed


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(draw=st.data(), name=st.sampled_from(DOCUMENTS))
def test_a_changed_document_is_refused_by_its_file_or_judged(run_dir: Path, draw: st.DataObject, name: str) -> None:
    path = run_dir / name
    before = path.read_bytes()
    try:
        path.write_bytes(text_of(draw, name, before.decode()))
        with suppress(RunDirectoryError):
            run = open_run(run_dir)
            causes_of(run)
            for lane in run.lanes:
                statuses = dict.fromkeys(lane.anomalies, Status.FORBIDDEN)
                verdict = judge(
                    LaneEvidence(run, lane, LaneFacts(), LanePrediction(statuses, "model", (), "digest"), {})
                )
                assert json.dumps(verdict.to_json()).encode()
                assert Anomaly.LOST_WRITE in verdict.predicted
    finally:
        path.write_bytes(before)
