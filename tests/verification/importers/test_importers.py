"""Histories of other tools become run directories: every row as the tool reported it; bad lines are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, TopicPartition

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cli.import_command import import_command
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.cluster.configuration.server_properties import REPLICATION_PORT
from kafka_chaos.verification import verify
from kafka_chaos.verification.inputs.run_directory import open_run
from tests.commands import ended
from tests.parquet import rows_in
from tests.verification.samples.engines import Verified


def lines(path: Path, *events: dict[str, Any] | str) -> Path:
    path.write_text("".join((event if isinstance(event, str) else json.dumps(event)) + "\n" for event in events))
    return path


def run(*arguments: object) -> Result:
    return ended(import_command, *arguments)


def sent(value: str, offset: int, *, partition: int = 0) -> dict[str, Any]:
    place = {"topic": "t", "partition": partition, "offset": offset}
    return {"timestamp": 1000 + offset, "name": "producer_send_success", "key": None, "value": value, **place}


def failed(value: str, exception: str) -> dict[str, Any]:
    event = {"timestamp": 2000, "name": "producer_send_error", "key": None, "value": value, "topic": "t"}
    return {**event, "exception": f"class org.apache.kafka.common.errors.{exception}", "message": "m"}


def given(value: str, offset: int) -> dict[str, Any]:
    event = {"timestamp": 3000, "name": "record_data", "key": None, "value": value}
    return {**event, "topic": "t", "partition": 0, "offset": offset}


START = {"timestamp": 900, "name": "startup_complete"}
END = {"timestamp": 9000, "name": "shutdown_complete"}


DATA = {"timestamp": 9001, "name": "tool_data"}
READ = {"timestamp": 3000, "name": "records_consumed", "count": 2, "partitions": []}
PART = {"topic": "t", "partition": 0, "count": 2, "minOffset": 4, "maxOffset": 5}


@pytest.mark.parametrize(
    ("summary", "message"),
    [
        (READ, None),
        ({**READ, "partitions": [PART]}, None),
        ({**READ, "count": 6, "partitions": [PART]}, None),
        ({**READ, "count": 1, "partitions": [PART]}, "count is 1, but 2 record_data lines come before it"),
        ({**READ, "count": 3}, "count is 3, but 2 record_data lines come before it"),
        ({**READ, "count": 3, "partitions": [{**PART, "count": 3}]}, "does not match the record_data lines before it"),
        ({**READ, "partitions": [{**PART, "minOffset": 3}]}, "does not match the record_data lines before it"),
        ({**READ, "partitions": [{**PART, "partition": 1}]}, "does not match the record_data lines before it"),
        ({**READ, "partitions": [3]}, "partitions holds 3, expected objects"),
        (given("2", -1), "was read at offset -1 of partition 0"),
        (END, "no records_consumed counts the 2 record_data lines before it"),
    ],
)
def test_a_consumer_counts_what_it_read(tmp_path: Path, summary: dict[str, Any], message: str | None) -> None:
    producer = lines(tmp_path / "p", START, sent("0", 4), sent("1", 5))
    consumer = lines(tmp_path / "c", START, given("0", 4), given("1", 5), summary)
    result = run("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run")
    assert result.exit_code == (0 if message is None else 64)
    assert message is None or f"{consumer}, line 4: " in result.output
    assert message is None or message in result.output


def test_a_batch_cut_short_by_the_limit_is_the_last_one_of_a_consumer(tmp_path: Path) -> None:
    """Seen with --max-messages on 3.9.1: count is what was polled (251), partitions what was delivered (247)."""
    producer = lines(tmp_path / "p", START, *(sent(str(number), 4 + number) for number in range(4)))
    cut = {**READ, "count": 6, "partitions": [PART]}
    rest = [given("2", 6), given("3", 7), {**READ, "partitions": [{**PART, "minOffset": 6, "maxOffset": 7}]}]
    killed = given("2", 6)
    again = lines(tmp_path / "again", START, given("0", 4), given("1", 5), cut, START, killed, START, *rest)
    assert run("verifiable", producer, "--consumer", again, "--out", tmp_path / "run").exit_code == 0
    more = lines(tmp_path / "more", START, given("0", 4), given("1", 5), cut, *rest)
    result = run("verifiable", producer, "--consumer", more, "--out", tmp_path / "refused")
    assert result.exit_code == 64
    assert f"{more}, line 5: record_data: comes after a batch that --max-messages cut short" in result.output


def test_a_reset_below_the_position_is_a_new_name_only_where_what_was_read_may_be_lost(tmp_path: Path) -> None:
    producer = lines(tmp_path / "p", START, sent("0", 4), sent("1", 5))
    consumer = lines(tmp_path / "c", START, given("0", 4), given("1", 5), given("0", 4))
    for options, names in (((), 1), (("--unclean-leader-election",), 2), (("--faults", "power-loss"), 2)):
        out = tmp_path / "_".join(["run", *options])
        assert run("verifiable", producer, "--consumer", consumer, "--out", out, *options).exit_code == 0
        assert len({row["consumer"] for row in rows_in(out / "consumed")}) == names


def test_what_the_verifiable_tools_tell(tmp_path: Path) -> None:
    data = {"timestamp": 9001, "name": "tool_data", "sent": 6, "acked": 2, "target_throughput": -1, "avg_throughput": 1}
    refused = failed("2", "RecordTooLargeException"), failed("3", "TimeoutException")
    producer = lines(tmp_path / "p", START, sent("0", 0), sent("1", 1, partition=2), *refused, END, data)
    assigned = {"timestamp": 1, "name": "partitions_assigned", "partitions": []}
    consumer = lines(tmp_path / "c", START, assigned, given("0", 0), given("0", 1), READ, assigned, given("?", 2))
    out = tmp_path / "run"
    result = run("verifiable", producer, "--consumer", consumer, "--out", out, "--acks", "1", "--faults", "kill")
    assert (result.exit_code, result.output) == (0, f"{out}: lane t, 3 partitions\n")
    lane = open_run(out).lane("t")
    assert (lane.acks, lane.faults, lane.partitions) == ("1", ("kill",), 3)
    produced = rows_in(out / "produced")
    assert [(row["seq"], row["outcome"], row["partition"], row["offset"]) for row in produced] == [
        (0, "ok", 0, 0), (1, "ok", 2, 1), (2, "fail", None, None), (3, "info", None, None), (4, "info", None, None),
        (5, "info", None, None),
    ]  # fmt: skip
    assert produced[0]["complete_ns"] == 1_000_000_000
    consumed = rows_in(out / "consumed")
    assert [(row["consumer"], row["offset"], row["producer_id"], row["seq"]) for row in consumed] == [
        ("consumer-0/1", 0, 0, 0),
        ("consumer-0/1", 1, 0, 0),
        ("consumer-0/2", 2, -1, -1),
    ]
    polls = [row["poll_ns"] for row in consumed]
    assert polls == sorted(set(polls))


def test_a_producer_that_was_killed_may_have_sent_what_was_read(tmp_path: Path) -> None:
    producer = lines(tmp_path / "p", START, sent("7.0", 0), sent("7.2", 1))
    consumer = lines(tmp_path / "c", START, *(given(f"7.{seq}", seq) for seq in range(5)))
    assert run("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run").exit_code == 0
    produced = rows_in(tmp_path / "run/produced")
    assert sorted((row["producer_id"], row["seq"], row["outcome"]) for row in produced) == [
        (7, 0, "ok"), (7, 1, "info"), (7, 2, "ok"), (7, 3, "info"), (7, 4, "info"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "line", "message"),
    [
        ((START, "nonsense"), 2, "not valid JSON"),
        ((START, sent("0", 0), '{"timestamp": 1, "na'), 3, "not valid JSON"),
        (({"timestamp": 1},), 1, "expected an object with a name"),
        ((START, {**sent("0", 0), "offset": "0"}), 2, "offset is '0', expected a whole number"),
        ((START, sent("zero", 0)), 2, "expected N or P.N"),
        ((START, sent("0", 0), sent("0", 1)), 3, "occurs twice"),
        ((START, sent("0", 2**63)), 2, "does not fit 64 bits"),
        ((START, sent("0", 0, partition=2**31)), 2, "expected at most 2147483647"),
        ((START, {**sent("0", 0), "timestamp": 2**60}), 2, "timestamp is 1152921504606846976, expected at most"),
        ((START, '{"name": "startup_complete", "name": "shutdown_complete"}'), 2, "key 'name' occurs twice"),
        ((sent("0", 0), {**DATA, "sent": 1, "acked": 2}), 2, "1 sent and 2 acknowledged, but 1 and 1 lines"),
        ((sent("0", 0), sent("1", 1), {**DATA, "sent": 1, "acked": 2}), 3, "but 2 and 2 lines come before it"),
        (({"timestamp": 1, "name": "records_consumed", "count": 1},), 1, "no event of VerifiableProducer"),
        ((START, sent("\u0663", 0)), 2, "expected N or P.N"),
        ((START, END, sent("0", 0)), 3, "comes after the end of the tool"),
        ((START, *({**DATA, "sent": 0, "acked": 0},) * 2), 3, "no event of VerifiableProducer at this place"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_left(tmp_path: Path, events: Any, line: int, message: str) -> None:
    producer, consumer = lines(tmp_path / "p", *events), lines(tmp_path / "c", START)
    result = run("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run")
    assert result.exit_code == 64
    assert f"{producer}, line {line}: " in result.output
    assert message in result.output
    assert {path.name for path in tmp_path.iterdir()} == {"p", "c"}


def test_a_consumer_that_does_not_tell_records_and_a_directory_that_is_there(tmp_path: Path) -> None:
    producer = lines(tmp_path / "p", START, sent("0", 0))
    quiet = lines(tmp_path / "c", START, {**READ, "count": 1})
    result = run("verifiable", producer, "--consumer", quiet, "--out", tmp_path / "run")
    assert (result.exit_code, "--verbose" in result.output) == (64, True)
    result = run("verifiable", producer, "--consumer", quiet, "--out", tmp_path)
    assert (result.exit_code, "exists already" in result.output) == (64, True)


def test_lines_of_a_log_are_left_out_and_counted_on_request(tmp_path: Path) -> None:
    log = "[2026-03-02 10:00:00,100] INFO ProducerConfig values: acks = -1"
    producer, consumer = lines(tmp_path / "p", log, START, sent("0", 0), log, END), lines(tmp_path / "c", START)
    arguments = ("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run")
    assert "--skip-other-lines leaves such lines out" in run(*arguments).output
    result = run(*arguments, "--skip-other-lines")
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "2 lines of other origin left out")
    assert [row["seq"] for row in rows_in(tmp_path / "run" / "produced")] == [0]


def test_a_damaged_object_is_no_line_of_other_origin(tmp_path: Path) -> None:
    producer, consumer = lines(tmp_path / "p", START, '{"timestamp": 1, "na'), lines(tmp_path / "c", START)
    result = run("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run", "--skip-other-lines")
    assert (result.exit_code, f"{producer}, line 2: not valid JSON" in result.output) == (64, True)


@pytest.mark.parametrize(
    "event",
    [
        {"timestamp": 1, "name": "offsets_acknowledged", "count": 0, "partitions": []},
        {**READ, "count": 0, "partitions": [{"topic": "t", "partition": 0, "count": 1, "offsets": [0]}]},
    ],
)
def test_the_output_of_a_share_consumer_is_named(tmp_path: Path, event: dict[str, Any]) -> None:
    producer, consumer = lines(tmp_path / "p", START, sent("0", 0)), lines(tmp_path / "c", START, event)
    result = run("verifiable", producer, "--consumer", consumer, "--out", tmp_path / "run")
    assert (result.exit_code, "the output of VerifiableShareConsumer" in result.output) == (64, True)


def test_history_txt_is_refused_for_history_edn(tmp_path: Path) -> None:
    path = lines(tmp_path / "history.txt", "0\t:invoke\t:send\t[[:send 0 1]]")
    result = run("jepsen", path, "--out", tmp_path / "run")
    assert (result.exit_code, "expected the history.edn beside it" in result.output) == (64, True)


POLLED = {1: [[0, 10], [1, 99]], 0: [[0, 20]]}
OPERATIONS = [
    {"type": "invoke", "process": 0, "f": "send", "value": [["send", 1, 10], ["send", 0, 20]], "time": 1},
    {"type": "invoke", "process": 1, "f": "subscribe", "value": [0, 1], "time": 2},
    {"type": "ok", "process": 1, "f": "subscribe", "value": [0, 1], "time": 3},
    {"type": "ok", "process": 0, "f": "send", "value": [["send", 1, [0, 10]], ["send", 0, [None, 20]]], "time": 4},
    {"type": "info", "process": "nemesis", "f": "kill", "value": None, "time": 5},
    {"type": "invoke", "process": 1, "f": "txn", "value": [["poll"], ["send", 1, 11]], "time": 6},
    {"type": "info", "process": 1, "f": "txn", "value": [["poll", POLLED], ["send", 1, 11]], "time": 7},
    {"type": "invoke", "process": 2, "f": "send", "value": [["send", 1, 12]], "time": 8},
    {"type": "fail", "process": 2, "f": "send", "value": [["send", 1, 12]], "time": 9, "error": ["aborted"]},
    {"type": "invoke", "process": 3, "f": "send", "value": [["send", 1, 13]], "time": 10},
]


def operation(**changes: Any) -> str:
    return json.dumps({"type": "invoke", "process": 9, "f": "send", "value": [["send", 1, 14]], "time": 11, **changes})


def edn(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{':' + key if isinstance(key, str) else key} {edn(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + " ".join(map(edn, value)) + "]"
    return "nil" if value is None else f":{value}" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("form", ["edn", "edn-records", "edn-list", "json", "jsonl"])
def test_an_operation_log(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"history.{form.split('-')[0]}"
    if form == "json":
        path.write_text(json.dumps(OPERATIONS))
    elif form == "jsonl":
        lines(path, *OPERATIONS)
    elif form == "edn-list":
        path.write_text("[" + "\n".join(map(edn, OPERATIONS)) + "]")
    else:
        tag = "#jepsen.history.Op" if form == "edn-records" else ""
        lines(path, *(tag + edn(operation) for operation in OPERATIONS))
    result = run("jepsen", path, "--out", tmp_path / "run", "--lane", "j", "--no-transactional")
    assert (result.exit_code, result.output) == (0, f"{tmp_path / 'run'}: lane j, 2 partitions\n")
    produced = rows_in(tmp_path / "run/produced")
    assert {(r["producer_id"], r["seq"]): (r["partition"], r["offset"], r["outcome"]) for r in produced} == {
        (0, 0): (1, 0, "ok"), (0, 1): (0, None, "ok"), (1, 0): (1, None, "info"), (2, 0): (1, None, "fail"),
        (3, 0): (1, None, "info"),
    }  # fmt: skip
    consumed = rows_in(tmp_path / "run/consumed")
    assert [(r["consumer"], r["partition"], r["offset"], r["producer_id"], r["seq"]) for r in consumed] == [
        ("process-1/1", 1, 0, 0, 0),
        ("process-1/1", 1, 1, -1, -1),
        ("process-1/1", 0, 0, 0, 1),
    ]
    assert open_run(tmp_path / "run").tables["produced"].rows == 5


NEXT = {"type": "invoke", "process": 0, "f": "txn", "value": [["send", 0, 12]], "time": 4}


@pytest.mark.parametrize(
    ("completed", "expected"),
    [([], 6), ([{"error": "timeout", "time": 3}], 6), ([{"error": "timeout", "time": 3}, NEXT], 4)],
)
def test_a_transaction_in_doubt_that_a_committed_reader_has_read_was_committed_by_then(
    tmp_path: Path, completed: list[dict[str, Any]], expected: int
) -> None:
    doubted = {"type": "invoke", "process": 0, "f": "txn", "value": [["send", 0, 10], ["send", 0, 11]], "time": 2}
    ended = [changes if changes is NEXT else {**doubted, "type": "info", **changes} for changes in completed]
    polls = [
        {"type": kind, "process": 1, "f": "txn", "value": [["poll", *read]], "time": time}
        for kind, time, read in (
            ("invoke", 5, []),
            ("ok", 6, [{"0": [[0, 10]]}]),
            ("invoke", 7, []),
            ("ok", 8, [{"0": []}]),
        )
    ]
    path = lines(tmp_path / "history.jsonl", doubted, *ended, *polls)
    assert run("jepsen", path, "--out", tmp_path / "run").exit_code == 0
    (ended_with,) = rows_in(tmp_path / "run/transactions")[:1]
    assert (ended_with["outcome"], ended_with["end_ns"], ended_with["error"]) == ("committed", expected, None)
    produced = [row for row in rows_in(tmp_path / "run/produced") if row["transaction"] == ended_with["transaction"]]
    told = {(row["outcome"], row["complete_ns"], row["error"]) for row in produced}
    assert told == {("ok", expected, None)}


@pytest.mark.parametrize(
    ("form", "operation", "message"),
    [
        ("edn", "{:type :ok", "can't be read as an operation"),
        ("edn", "{:type :ok} {:type :ok}", "holds 2 values"),
        ("jsonl", '{"type": "ok"', "can't be read as an operation"),
        ("jsonl", '{"type": "done"}', "type is 'done'"),
        ("jsonl", "3", "expected an operation"),
        ("jsonl", '{"type": "invoke", "process": 9, "f": "send", "value": []}', "time is None"),
        ("jsonl", '{"type": "ok", "process": 9, "f": "send", "value": [], "time": 1}', "never invoked"),
        ("jsonl", operation(value=[["send", 1, 10]]), "second time"),
        ("jsonl", operation(process="0"), "process is '0', expected a whole number, or nemesis"),
        ("jsonl", operation(f="sned"), "f is 'sned', expected one of send, poll, txn"),
        ("jsonl", operation(f=["send"]), "f is ['send']"),
        ("jsonl", operation(time=True), "time is True"),
        ("jsonl", operation(value=[["send", 1]]), "neither [:send k v] nor [:poll …]"),
        ("jsonl", operation(value=[["send", "one", 14]]), "key 'one', expected a whole number, as other keys are"),
        ("jsonl", operation(value=[["send", 1, [14]]]), "value [14] is sent"),
        ("jsonl", operation(type="ok", process=3, value=[["send", 1, [0, 14]]]), "the answer to 13 is [0, 14]"),
        ("jsonl", operation(type="ok", process=3, value=[["send", 1, 14]]), "expected [offset 13]"),
        ("jsonl", operation(process="nemesis", f="send"), "process is 'nemesis'"),
        ("jsonl", operation(f="crash", value=[["send", 1, 14]]), "f is 'crash'"),
        ("jsonl", '{"type": "invoke", ":type": "ok"}', "key 'type' occurs twice"),
        ("edn", '{:type :invoke, "type" :ok}', "key 'type' occurs twice in one object"),
        ("jsonl", operation(type="ok", process=3, value=[["send", 0, 13]]), "are not those that the process invoked"),
        ("jsonl", operation(type="ok", process=3, f="poll", value=[]), "completes a poll, but process 3 invoked a"),
    ],
)
def test_a_bad_operation_is_named_and_nothing_is_left(tmp_path: Path, form: str, operation: str, message: str) -> None:
    good = [edn(entry) if form == "edn" else json.dumps(entry) for entry in OPERATIONS]
    path = lines(tmp_path / f"history.{form}", *good, operation)
    result = run("jepsen", path, "--out", tmp_path / "run")
    assert result.exit_code == 64
    assert f"{path}, line {len(good) + 1}: " in result.output
    assert message in result.output
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "polled",
    [["poll"], ["poll", {"a": [[None, 1]]}], ["poll", {"a": [1]}], ["poll", {"a": 1}], ["poll", {"a": [[0, True]]}]],
)
def test_what_was_read_must_be_told(tmp_path: Path, polled: list[Any]) -> None:
    begun = {"type": "invoke", "process": 0, "f": "poll", "value": [["poll"]], "time": 1}
    ended = {**begun, "type": "ok", "value": [polled], "time": 2}
    result = run("jepsen", lines(tmp_path / "h.jsonl", begun, ended), "--out", tmp_path / "run")
    assert result.exit_code == 64
    assert "h.jsonl, line 2: " in result.output


@pytest.mark.parametrize(
    ("keys", "partitions"), [(["7", "01", "1"], [0, 1, 2]), (["a", "0", "b"], [0, 1, 2]), ([2, 0, 1], [2, 0, 1])]
)
def test_keys_that_are_text_are_names(tmp_path: Path, keys: list[Any], partitions: list[int]) -> None:
    operations: list[dict[str, Any]] = []
    for number, key in enumerate(keys):
        sent = {"type": "invoke", "process": 0, "f": "send", "value": [["send", key, number]], "time": number * 4}
        answer = {**sent, "type": "ok", "value": [["send", key, [0, number]]]}
        poll = {"type": "invoke", "process": 1, "f": "poll", "value": [["poll"]], "time": number * 4 + 1}
        operations += [sent, answer, poll, {**poll, "type": "ok", "value": [["poll", {key: [[0, number]]}]]}]
    assert run("jepsen", lines(tmp_path / "h.jsonl", *operations), "--out", tmp_path / "run").exit_code == 0
    assert [row["partition"] for row in rows_in(tmp_path / "run/produced")] == partitions
    read = rows_in(tmp_path / "run/consumed")
    assert sorted((row["partition"], row["producer_id"], row["seq"]) for row in read) == sorted(
        (partition, 0, number) for number, partition in enumerate(partitions)
    )


@pytest.mark.parametrize(
    ("place", "engine"),
    [(str, "duckdb"), pytest.param(Path.as_uri, "spark", marks=[pytest.mark.slow, pytest.mark.spark])],
)
def test_an_imported_log_is_verified(tmp_path: Path, place: Callable[[Path], str], engine: str) -> None:
    path = lines(tmp_path / "history.jsonl", *OPERATIONS, "{")
    out = ("--no-transactional", "--out", place(tmp_path / "run"))
    assert run("jepsen", path, *out).exit_code == 64
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    lines(path, *OPERATIONS)
    assert run("jepsen", path, *out).exit_code == 0
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [path.name, "run"]
    assert "exists already" in run("jepsen", path, *out).output
    lane = verify(place(tmp_path / "run"), engine=engine).lane("jepsen")
    assert {anomaly.value: seen.count for anomaly, seen in lane.observed.items()} == {"phantom": 1}
    assert lane.verdict.value == "violation"


@pytest.mark.slow
@pytest.mark.cluster
def test_real_output_of_the_verifiable_tools(
    tmp_path: Path, verified: Verified, cluster: Cluster, make_topic: Callable[..., str]
) -> None:
    """Two producers, one of them killed in the middle, and a consumer, all inside a broker's container."""
    topic = make_topic(min_insync_replicas=2)
    broker = cluster.brokers[1]
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "watermarks", "log_level": 0})

    def stored() -> int:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
        return int(high - low)

    def tool(name: str, *arguments: str) -> str:
        java = f"exec java -Xmx128m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/jars/*' org.apache.kafka.tools.{name}"
        server = f"--bootstrap-server broker-1:{REPLICATION_PORT} --topic {topic}"
        return f"{java} {server} {' '.join(arguments)} 2>/dev/null"

    whole = broker.must_execute("sh", "-c", tool("VerifiableProducer", "--max-messages 500", "--value-prefix 1"))
    endless = tool("VerifiableProducer", "--throughput 200", "--value-prefix 2")
    pid = broker.must_execute("sh", "-c", f"({endless}) > /tmp/endless.out & echo $!").strip()
    wait_until(lambda: stored() >= 700, timeout=60, message="the second producer's records to arrive")
    broker.must_execute("kill", "-9", pid)
    cut_off = broker.must_execute("cat", "/tmp/endless.out")

    def read(group: str, limit: int) -> str:
        options = f"--max-messages {limit} --verbose --group-id {group} --reset-policy earliest"
        return broker.must_execute("sh", "-c", tool("VerifiableConsumer", options))

    reads, few = read("verifiable", stored()), read("few", 3)
    consumer.close()

    names = "whole.jsonl", "cut-off.jsonl", "reads.jsonl", "few.jsonl"
    files = [tmp_path / name for name in names]
    for file, text in zip(files, (whole, cut_off, reads, few), strict=True):
        file.write_text(text)
    (polled,) = (event for event in map(json.loads, few.splitlines()) if event["name"] == "records_consumed")
    assert polled["count"] > polled["partitions"][0]["count"] == 3
    out = tmp_path / "run"
    settings = "--min-insync-replicas", 2, "--out", out
    result = run("verifiable", *files[:2], "--consumer", files[2], "--consumer", files[3], *settings)
    assert result.exit_code == 0, result.output
    verdict = verified(out).lane(topic)
    assert (verdict.verdict.value, dict(verdict.observed)) == ("conforms", {}), verdict.reasons
    assert verdict.consumed >= 700
    assert verdict.acknowledged >= whole.count("producer_send_success")
