import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.campaign.lane_runs import append
from kafka_chaos.harness.campaign.mine import answer, read_settings
from kafka_chaos.harness.cli.main import cli
from tests.harness.campaign.lanes import ACKS_1, STRICT, lane_run


def settings_in(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "settings.properties"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("lines", "client", "lane"),
    [
        (["bootstrap.servers=a:9092"], "java", {"acks": "all", "idempotence": True, "max_in_flight": 5}),
        (["acks=-1", "# a comment"], "java", {"acks": "all", "idempotence": True, "max_in_flight": 5}),
        (["acks: 1"], "java", {"acks": "1", "idempotence": False, "max_in_flight": 5}),
        (["max.in.flight=9"], "java", {"acks": "all", "idempotence": False, "max_in_flight": 9}),
        (["message.timeout.ms=5"], "librdkafka", {"acks": "all", "idempotence": False, "max_in_flight": 5}),
        (
            ["request.required.acks=0", "min.insync.replicas=2", "unclean.leader.election.enable=TRUE"],
            "librdkafka",
            {
                "acks": "0",
                "idempotence": False,
                "max_in_flight": 5,
                "min_insync_replicas": 2,
                "unclean_leader_election": True,
            },
        ),
        (
            ["transactional.id=a"],
            "java",
            {"acks": "all", "idempotence": True, "max_in_flight": 5, "transactional": True},
        ),
    ],
)
def test_missing_keys_have_the_client_s_defaults(
    tmp_path: Path, lines: list[str], client: str, lane: dict[str, Any]
) -> None:
    settings = read_settings(settings_in(tmp_path, *lines))
    assert (settings.client, dict(settings.lane)) == (client, lane)


def test_keys_that_runs_do_not_vary_are_named_and_idempotence_bounds_requests_in_flight(tmp_path: Path) -> None:
    assert read_settings(settings_in(tmp_path, "enable.idempotence=true"), "sarama").lane["max_in_flight"] == 1
    ignored = read_settings(settings_in(tmp_path, "linger.ms=5", "acks=all", "retries=3")).ignored
    assert ignored == ["linger.ms", "retries"]


SPRING = """\
spring:
  kafka:
    producer:
      acks: 1
      transaction-id-prefix: tx-
      properties: {max.in.flight.requests.per.connection: 2, enable.idempotence: true}
    properties: {linger.ms: 5, max.in.flight.requests.per.connection: 3}
    consumer: {group-id: readers}
"""


def test_the_producer_of_a_spring_application_is_read_from_yaml_and_properties(tmp_path: Path) -> None:
    yaml, properties = tmp_path / "application.yml", tmp_path / "application.properties"
    yaml.write_text(SPRING)
    properties.write_text("spring.kafka.producer.acks=1\nspring.kafka.producer.transaction-id-prefix=tx-\n")
    settings = read_settings(yaml)
    assert settings.lane == {"acks": "1", "idempotence": True, "max_in_flight": 2, "transactional": True}
    assert settings.ignored == ["linger.ms"]
    assert read_settings(properties).lane == {**settings.lane, "max_in_flight": 5}


def test_yaml_of_another_application_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("acks: all\n")
    with pytest.raises(UsageFailure, match=r"values\.yaml: YAML without spring\.kafka: expected that, or lines"):
        read_settings(path)


@pytest.mark.parametrize(
    ("line", "client", "message"),
    [
        ("acks=2", None, "acks: '2': expected 0, 1, all or -1"),
        ("enable.idempotence=yes", None, "enable.idempotence: 'yes': expected true or false"),
        ("broker.id=1\nmin.insync.replicas=2", None, "settings.properties: no key of a producer is in it"),
        ("max.in.flight=0", None, "'0': expected a whole number of at least 1"),
        ("acks=1\nmin.insync.replicas=two", None, "min.insync.replicas: 'two': expected a whole number"),
        ("acks", None, "settings.properties:1: 'acks': expected KEY=VALUE"),
        ("acks=1", "go", "--client 'go': expected librdkafka"),
    ],
)
def test_a_wrong_value_is_refused(tmp_path: Path, line: str, client: str | None, message: str) -> None:
    with pytest.raises(UsageFailure, match=message):
        read_settings(settings_in(tmp_path, line), client)


def test_cells_of_the_client_are_preferred(tmp_path: Path) -> None:
    record = [lane_run(settings=STRICT), lane_run(settings=STRICT, client="java 3.9.1"), lane_run(4)]
    found = answer(settings_in(tmp_path, "acks=all"), record)
    assert [cell.cell.client for cell in found.cells] == ["java 3.9.1"]
    assert "other clients" in str(answer(settings_in(tmp_path, "acks=all"), record[:1]))
    assert "librdkafka 2.16.0" in str(answer(settings_in(tmp_path, "acks=all"), record[:1]))


def test_a_topic_s_settings_count_where_the_file_has_them(tmp_path: Path) -> None:
    record = [lane_run(settings=STRICT, client="java 3.9.1")]
    assert answer(settings_in(tmp_path, "acks=all", "min.insync.replicas=2"), record).cells
    assert not answer(settings_in(tmp_path, "acks=all", "min.insync.replicas=1"), record).cells


def test_lanes_with_groups_and_loops_do_not_answer_for_a_producer(tmp_path: Path) -> None:
    with_group = json.dumps({**json.loads(ACKS_1), "group": {"members": 2}})
    assert not answer(settings_in(tmp_path, "acks=1"), [lane_run(settings=with_group)]).cells


def test_what_no_run_tried_is_not_called_safe(tmp_path: Path) -> None:
    text = str(answer(settings_in(tmp_path, "acks=0"), [lane_run()]))
    assert "No run has tried these settings: nothing is known about them." in text
    assert "conforms" not in text


def test_the_command_prints_shares_with_intervals(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    append(record, [lane_run(12), lane_run()])
    path = settings_in(tmp_path, "acks=1", "linger.ms=9")
    given = ["atlas", "--mine", str(path), "--client", "librdkafka", "--record", str(record)]
    found = CliRunner().invoke(cli, given)
    assert found.exit_code == 0
    assert "losses in 1 of 2 (9% – 91%), up to 12" in found.output
    assert "does not count them: linger.ms" in found.output
    as_json = json.loads(CliRunner().invoke(cli, [*given, "--json"]).output)
    assert as_json["cells"][0]["anomalies"][0]["hits"] == 1


@pytest.mark.slow
def test_an_answer_takes_less_than_two_seconds_of_a_processor(tmp_path: Path) -> None:
    path = settings_in(tmp_path, "acks=all")
    command = [sys.executable, "-m", "kafka_chaos.harness.cli.main", "atlas", "--mine", str(path)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2
