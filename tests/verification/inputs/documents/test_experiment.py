"""lanes.json and experiment.yaml have to agree on each lane."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.run_directory import RunDirectoryError
from kafka_chaos.verification.closure.resolve import resolved
from kafka_chaos.verification.inputs.documents.events import Events, Phase
from kafka_chaos.verification.inputs.documents.experiment import differing
from kafka_chaos.verification.inputs.documents.faults import FaultRecord
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.verification.samples.run_dirs import Rows

LANES = [
    Lane.from_json({"lane": "a", "acks": "1", "kafka_version": "3.9.1"}),
    Lane.from_json({"lane": "b", "topic": "t", "group": {"members": 3}, "kafka_version": "3.9.1"}),
]
PHASES = {"one": Phase(("a",), 0, 9), "two": Phase(("b",), 0, 9)}
EVENTS = Events(faults=(), phases=PHASES, run_id="r")
TEXT = """
name: x
cluster: {kafka_version: 3.9.1}
phases:
- phase: one
  lanes:
  - {lane: a, acks: '1', idempotence: false, partitions: 1, topic: , cleanup_policy: , group: }
- phase: two
  lanes:
  - {lane: b, group: {members: 3}, topic: t}
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "experiment.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_what_both_say(tmp_path: Path) -> None:
    assert differing(tmp_path / "experiment.yaml", LANES, EVENTS, 0) is None
    assert differing(written(tmp_path, TEXT), LANES, EVENTS, 0) == {"a": [], "b": []}


@pytest.mark.parametrize(
    ("key", "value"),
    [("assume", ["some.key"]), ("flushes", True), ("consumer_offsets", {"unclean_leader_election": True})],
)
def test_what_no_configuration_makes_of_a_lane(tmp_path: Path, key: str, value: object) -> None:
    lanes = [LANES[0], Lane.from_json({**LANES[1].to_json(), key: value})]
    found = differing(written(tmp_path, TEXT), lanes, EVENTS, 0)
    assert found is not None
    assert found["a"] == []
    assert f"lanes.json says {key}: " in found["b"][0]
    for configured in (
        TEXT.replace("3.9.1", "3.9.1, broker_configs: {x: 1}"),
        TEXT.replace("3.9.1", "3.9.1, configs_of: {x: {y: 1}}"),
        TEXT.replace("topic: t}", "topic: t, topic_configs: {x: 1}}"),
    ):
        if key == "assume":
            configured = configured.replace("topic: t", "topic: t, assume: [some.key]")
        assert differing(written(tmp_path, configured), lanes, EVENTS, 0) == {"a": [], "b": []}


@pytest.mark.parametrize(
    ("brokers", "kept", "differs"),
    [
        ("", {"replication_factor": 3}, False),
        (", brokers: 2", {"replication_factor": 2}, False),
        (", brokers: 2", {"replication_factor": 3}, True),
        (", brokers: three", {"replication_factor": 3}, False),
        ("", {"replication_factor": 3, "min_insync_replicas": 2}, True),
    ],
)
def test_internal_topics_have_as_many_replicas_as_there_are_brokers_up_to_three(
    tmp_path: Path, brokers: str, kept: dict[str, int], differs: bool
) -> None:
    lanes = [LANES[0], Lane.from_json({**LANES[1].to_json(), "consumer_offsets": kept})]
    found = differing(written(tmp_path, TEXT.replace("3.9.1", f"3.9.1{brokers}")), lanes, EVENTS, 0)
    assert found is not None
    assert any("consumer_offsets" in one for one in found["b"]) is differs


def test_what_the_cluster_assumes_each_lane_does(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("3.9.1", "3.9.1, assume: [some.key]"))
    lanes = [replace(lane, assume=("some.key",)) for lane in LANES]
    assert differing(path, lanes, EVENTS, 0) == {"a": [], "b": []}
    found = differing(path, [lanes[0], LANES[1]], EVENTS, 0)
    assert found == {"a": [], "b": ["lanes.json says assume: set(), experiment.yaml {'some.key'}"]}


@pytest.mark.parametrize(("version", "differs"), [("0.10.2.2", False), ("0.11.0.0", True), ("1.0.0", True)])
def test_before_0_11_brokers_may_elect_unclean_leaders_of_their_own_topics(
    tmp_path: Path, version: str, differs: bool
) -> None:
    of_brokers = {"consumer_offsets": {"unclean_leader_election": True}, "kafka_version": version}
    lanes = [replace(LANES[0], kafka_version=version), Lane.from_json({**LANES[1].to_json(), **of_brokers})]
    found = differing(written(tmp_path, TEXT.replace("3.9.1", version)), lanes, EVENTS, 0)
    assert found is not None
    assert bool(found["b"]) is differs


@pytest.mark.parametrize(
    ("cluster", "difference"),
    [
        ("metadata_mode: kraft", "lanes.json says metadata_mode: 'zookeeper', experiment.yaml 'kraft'"),
        ("metadata_mode: zookeeper", None),
        ("elr: true", "lanes.json says elr: None, experiment.yaml True"),
    ],
)
def test_a_lane_has_the_metadata_mode_and_the_eligible_replicas_of_its_cluster(
    tmp_path: Path, cluster: str, difference: str | None
) -> None:
    lanes = [replace(lane, metadata_mode="zookeeper") for lane in LANES]
    found = differing(written(tmp_path, TEXT.replace("3.9.1", f"3.9.1, {cluster}")), lanes, EVENTS, 0)
    differences = [difference] if difference else []
    assert found == {"a": differences, "b": differences}


@pytest.mark.parametrize(
    ("client", "planned", "same"),
    [
        ("java 3.9.1", "java 3.9.1", True),
        ("java 4.1.1", "java 3.9.1", False),
        ("java", "java 3.9.1", False),
        ("librdkafka 2.16.0", "librdkafka", True),
        ("java 3.9.1", "librdkafka", False),
        ("own", "[./service]", True),
        (None, "java 3.9.1", False),
        (None, "librdkafka", True),
    ],
)
def test_the_client_of_a_lane(tmp_path: Path, client: str | None, planned: str, same: bool) -> None:
    lanes = [LANES[0], Lane.from_json({**LANES[1].to_json(), "client": client})]
    found = differing(written(tmp_path, TEXT.replace("topic: t}", f"topic: t, client: {planned}}}")), lanes, EVENTS, 0)
    assert found is not None
    assert [one.startswith("lanes.json says client: ") for one in found["b"]] == ([] if same else [True])


def test_faults_that_end_members_are_crashes_of_the_group(tmp_path: Path) -> None:
    for crashes, differences in ((2, 0), (0, 1)):
        lanes = [LANES[0], Lane.from_json({**LANES[1].to_json(), "group": {"members": 3, "crashes": crashes}})]
        found = differing(written(tmp_path, TEXT.replace("{members: 3}", "{members: 3, crashes: 1}")), lanes, EVENTS, 0)
        assert found is not None
        assert len(found["b"]) == differences


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        ("acks: '1'", "acks: all", "lanes.json says acks: '1', experiment.yaml 'all'"),
        ("idempotence: false", "idempotence: true", "says idempotence: False, experiment.yaml True"),
        ("idempotence: false", "idempotence: 0", "says idempotence: False, experiment.yaml 0"),
        ("cleanup_policy: ,", "cleanup_policy: compact,", "says cleanup_policy: None, experiment.yaml 'compact'"),
        ("partitions: 1", "partitions: 2", "lanes.json says partitions: 1, experiment.yaml 2"),
        ("topic: ,", "topic: b,", "lanes.json says topic: 'a', experiment.yaml 'b'"),
        ("group: }", "group: , assume: 5}", "says assume: set(), experiment.yaml [5, []]"),
        ("group: }", "group: , assume: [[1]]}", "says assume: set(), experiment.yaml [[[1]], []]"),
        ("group: }", "group: {members: 1}}", "says group: False, experiment.yaml True"),
        ("group: }", "transactional: {size: 1}}", "says transactional: False, experiment.yaml True"),
        ("acks: '1', ", "", "says acks: '1', experiment.yaml 'all'"),
        ("partitions: 1", "partitions: 1.0", "says partitions: 1, experiment.yaml 1.0"),
        ("group: }", "group: x}", "says group: False, experiment.yaml 'x'"),
        ("group: }", "created_at: 2.0}", "says created_late: False, experiment.yaml True"),
    ],
)
def test_what_they_do_not_agree_on(tmp_path: Path, before: str, after: str, difference: str) -> None:
    found = differing(written(tmp_path, TEXT.replace(before, after)), LANES, EVENTS, 0)
    assert found is not None
    assert found["b"] == []
    assert difference in found["a"][0]


@pytest.mark.parametrize(
    ("schedule", "partitions"),
    [
        ("[]", 1),
        ("[{fault: partition-growth}]", 2),
        ("[{fault: partition-growth, add: 2, lane: }, {fault: partition-growth, add: 3, lane: a}]", 6),
        ("[{fault: partition-growth, add: 2, lane: b}, {fault: kill, add: 4}]", 1),
    ],
)
def test_a_lane_has_the_partitions_that_faults_add(tmp_path: Path, schedule: str, partitions: int) -> None:
    path = written(tmp_path, TEXT.replace("phase: one", f"phase: one\n  schedule: {schedule}"))
    for number in (1, 2, 6):
        found = differing(path, [replace(LANES[0], partitions=number), LANES[1]], EVENTS, 0)
        assert found is not None
        differences = [one for one in found["a"] if "partitions" in one]
        assert differences == (
            [] if number == partitions else [f"lanes.json says partitions: {number}, experiment.yaml {partitions}"]
        )
        assert found["b"] == []
    grown = TEXT.replace("phase: one", "phase: one\n  schedule: [{fault: partition-growth}]")
    events = replace(EVENTS, faults=(FaultRecord("g", "partition-growth", lanes=("a",)),))
    without = written(tmp_path, grown.replace("partitions: 1, ", ""))
    lanes = [replace(LANES[0], partitions=2), LANES[1]]
    assert differing(without, lanes, events, 0) == {"a": [], "b": []}
    other = written(tmp_path, grown.replace("partitions: 1", "partitions: x"))
    found = differing(other, lanes, events, 0)
    assert found == {"a": ["lanes.json says partitions: 2, experiment.yaml 'x'"], "b": []}


@pytest.mark.parametrize(
    ("schedule", "requested", "problem"),
    [
        ("[{fault: kill}]", ["kill"], None),
        ("[{fault: kill}, {fault: pause}]", ["pause", "kill"], None),
        ("[{fault: kill}, {fault: kill}]", ["kill"], "schedules the faults kill, kill, events.jsonl kill"),
        ("[{fault: kill}]", [], "schedules the faults kill, events.jsonl none"),
        ("", ["kill"], "schedules the faults none, events.jsonl kill"),
        ("[]\n  steps: {x: 1}", ["lockstep"], None),
    ],
)
def test_the_schedule_is_what_was_requested(
    tmp_path: Path, schedule: str, requested: list[str], problem: str | None
) -> None:
    text = TEXT.replace("phase: two", f"phase: two\n  schedule: {schedule}")
    faults = [FaultRecord(f"{kind}-{number}", kind, lanes=("b",)) for number, kind in enumerate(requested)]
    found = differing(written(tmp_path, text), LANES, replace(EVENTS, faults=tuple(faults)), 0)
    assert found is not None
    assert found["a"] == []
    assert found["b"] == ([] if problem is None else [f"experiment.yaml {problem}"])


RECORDED = "recorded: {run_id: r, versions: {librdkafka: 2.16.0}}\n"


@pytest.mark.parametrize(
    ("events", "brokers", "problem"),
    [
        (EVENTS, 3, None),
        (replace(EVENTS, run_id="other"), 3, "experiment.yaml says run_id: 'r', the run's files 'other'"),
        (replace(EVENTS, run_id=None), 3, "experiment.yaml says run_id: 'r', the run's files None"),
        (EVENTS, 0, None),
        (
            replace(EVENTS, early=["harness_paused"] * 2),
            3,
            "events.jsonl reports harness_paused from before the run began",
        ),
        (EVENTS, 2, "experiment.yaml says brokers: 3, the run's files 2"),
        (replace(EVENTS, phases={}), 3, "experiment.yaml has the phase one, events.jsonl none"),
        (replace(EVENTS, phases={"one": PHASES["two"]}), 3, "experiment.yaml has the phase one, events.jsonl none"),
        (
            replace(EVENTS, outside={"a": ("kill",)}),
            3,
            "experiment.yaml has the outside faults none, events.jsonl kill",
        ),
        (replace(EVENTS, outside={"a": ("stop",)}), 3, None),
    ],
)
def test_the_run_is_that_of_the_experiment(tmp_path: Path, events: Events, brokers: int, problem: str | None) -> None:
    path = written(tmp_path, TEXT.replace("cluster: {", "cluster: {brokers: 3, ") + RECORDED)
    found = differing(path, LANES, events, brokers)
    assert found is not None
    assert found["a"] == ([] if problem is None else [problem])


@pytest.mark.parametrize(("version", "same"), [("2.16.0", True), ("1.0.0", False)])
def test_librdkafka_has_the_version_that_the_run_recorded(tmp_path: Path, version: str, same: bool) -> None:
    lanes = [LANES[0], Lane.from_json({**LANES[1].to_json(), "client": f"librdkafka {version}"})]
    found = differing(written(tmp_path, TEXT + RECORDED), lanes, EVENTS, 0)
    assert found is not None
    assert bool(found["b"]) is not same


def test_what_is_nested_in_settings_is_compared(tmp_path: Path) -> None:
    loop = {"source": "a", "group": {"members": 2, "crashes": 3}}
    lanes = [
        LANES[0],
        Lane.from_json(
            {
                "lane": "b",
                "topic": "t",
                "kafka_version": "3.9.1",
                "idempotence": True,
                "loop": loop,
                "transactional": {"producers": 2},
            }
        ),
    ]
    there = "idempotence: true, transactional: {producers: 2}, loop: {source: a, group: {members: 9, crashes: 1}}"
    found = differing(written(tmp_path, TEXT.replace("group: {members: 3}", there)), lanes, EVENTS, 0)
    assert found is not None
    assert found["b"] == ["lanes.json says loop.group.members: 2, experiment.yaml 9"]
    there = there.replace("{members: 9, crashes: 1}", "5").replace("producers: 2", "producers: 3")
    found = differing(written(tmp_path, TEXT.replace("group: {members: 3}", there)), lanes, EVENTS, 0)
    assert found is not None
    assert found["b"][0] == "lanes.json says transactional.producers: 2, experiment.yaml 3"
    assert found["b"][1].startswith("lanes.json says loop.group: {'members': 2, ")


def test_crashes_of_a_group_are_a_number(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("{members: 3}", "{members: 3, crashes: many}"))
    assert differing(path, LANES, EVENTS, 0) == {
        "a": [],
        "b": ["lanes.json says group.crashes: 0, experiment.yaml 'many'"],
    }


def test_all_faults_of_both_are_named_in_order(tmp_path: Path) -> None:
    text = TEXT.replace("phase: two", "phase: two\n  schedule: [{fault: pause}, {fault: kill}]")
    faults = tuple(FaultRecord(f"{kind}-1", kind, lanes=("b",)) for kind in ("stop", "pause"))
    found = differing(written(tmp_path, text), LANES, replace(EVENTS, faults=faults), 0)
    assert found is not None
    assert found["b"] == ["experiment.yaml schedules the faults kill, pause, events.jsonl pause, stop"]


def test_the_cluster_and_the_clients_are_the_same(tmp_path: Path) -> None:
    entry = {"lane": "a", "acks": "1", "kafka_version": "4.3.1", "metadata_mode": "kraft"}
    lanes = [Lane.from_json(entry), Lane.from_json({**LANES[1].to_json(), "group": {"members": 2}})]
    found = differing(written(tmp_path, TEXT), lanes, EVENTS, 0)
    assert found is not None
    assert found["a"] == ["lanes.json says kafka_version: '4.3.1', experiment.yaml '3.9.1'"]
    assert found["b"] == ["lanes.json says group.members: 2, experiment.yaml 3"]
    mixed = TEXT.replace("3.9.1", "3.9.1, broker_versions: {1: 4.3.1}")
    assert differing(written(tmp_path, mixed), lanes, EVENTS, 0) == {"a": [], "b": found["b"]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "phases: expected a list of phases"),
        ("phases: 3", "phases: expected a list of phases"),
        ("phases: [3]", "phases[0].lanes: expected a list of lanes"),
        ("phases: [{lanes: []}, {lanes: 3}]", "phases[1].lanes: expected a list of lanes"),
        ("phases: [{lanes: [3]}]", "phases[0].lanes: expected lanes with a name"),
        (TEXT.replace("lane: b,", "lane: a,"), "phases[1].lanes: lane a is there twice"),
        (TEXT.replace("{kafka_version: 3.9.1}", ""), "cluster: None, expected a mapping"),
        (
            TEXT.replace("{kafka_version", "{broker_configs: 5, kafka_version"),
            "cluster.broker_configs: 5, expected a mapping",
        ),
        (TEXT.replace("{kafka_version", "{configs_of: 5, kafka_version"), "cluster.configs_of: 5, expected a mapping"),
        (TEXT.replace("{kafka", "{broker_versions: 5, kafka"), "cluster.broker_versions: 5, expected a mapping"),
        (
            TEXT.replace("topic: t}", "topic: t, topic_configs: 3}"),
            "phases[1].lanes.topic_configs: 3, expected a mapping",
        ),
        (TEXT.replace("topic: t}", "producer_configs: 3}"), "phases[1].lanes.producer_configs: 3, expected a mapping"),
        (TEXT + "recorded: 3", "recorded: 3, expected a mapping"),
        (TEXT.replace("phase: two", "phase: [two]"), "phases[1].phase: expected a name"),
        (TEXT + "  outside_faults: [3]\n", "phases[1].outside_faults: expected a list of fault kinds"),
        (TEXT + "  schedule: 3\n", "phases[1].schedule: expected a list of faults"),
        (TEXT + "  schedule: [kill]\n", "phases[1].schedule: expected faults"),
        (TEXT + "  schedule: [{fault: kill, add: x}]\n", "phases[1].schedule: expected faults"),
    ],
)
def test_what_is_no_experiment_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RunDirectoryError) as refused:
        differing(path, LANES, EVENTS, 0)
    assert str(refused.value) == f"{path}: {problem}"


@pytest.mark.parametrize("text", ["phases: [", b"\xff\xfe", "a: &a [*a, *b]", "[" * 5000])
def test_what_is_no_yaml_is_refused(tmp_path: Path, text: str | bytes) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RunDirectoryError, match="not valid YAML") as refused:
        differing(path, LANES, EVENTS, 0)
    assert refused.value.path == str(path)


def test_both_have_the_same_lanes(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT.replace("lane: a", "lane: c"))
    with pytest.raises(RunDirectoryError) as refused:
        differing(path, LANES, EVENTS, 0)
    assert str(refused.value) == f"{tmp_path / 'lanes.json'}: lane 'a': experiment.yaml has no such lane"
    written(tmp_path, TEXT + "  - {lane: c}\n")
    with pytest.raises(RunDirectoryError) as refused:
        differing(path, LANES, EVENTS, 0)
    assert str(refused.value) == f"{path}: lane 'c': lanes.json has no such lane"


def test_a_run_with_an_experiment_has_events(tmp_path: Path) -> None:
    rows = Rows()
    folder = rows.all(0, 0).write(tmp_path / "run")
    written(folder, "phases: [{lanes: [{lane: a, acks: '1'}]}]")
    assert [doubt.text for doubt in resolved(open_run(folder)).doubts["a"]] == [
        "lanes.json says acks: 'all', experiment.yaml '1'",
        "events.jsonl is missing, though experiment.yaml is there",
    ]
    (folder / "events.jsonl").write_text("")
    written(folder, "phases: [{lanes: [{lane: a}]}]")
    assert resolved(open_run(folder)).doubts == {}
