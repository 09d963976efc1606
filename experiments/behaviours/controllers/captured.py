"""A controller's captured requests about a topic, to whom they went, and the brokers' answers."""

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_chaos.conformance.controllers.capture import Capture, Exchange
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.harness.cluster.broker.client import error_name


def deletes_replica(exchange: Exchange, state: Mapping[str, Any]) -> bool:
    """Whether a request asks for a partition's replica to be deleted."""
    return bool(state.get("delete_partition", exchange.request.get("delete_partitions", False)))


def note_requests(stage: Stage, capture: Capture) -> list[Exchange]:
    """Record what was sent about the topic as a table; no answer may have an error."""
    about = [e for e in capture.exchanges() if states_of(e, stage.topic)]
    _expect_answers(stage, about)
    stage.expect("Frames and connections that the links could not read", capture.unread, 0)
    stage.fact("what the controller sent", [_row(e, s, about[0]) for e in about for s in states_of(e, stage.topic)])
    return about


def _expect_answers(stage: Stage, about: list[Exchange]) -> None:
    """No broker refuses a request, except a LeaderAndIsr in a leader epoch that it already has."""
    known: dict[int, int] = {}
    others = []
    for exchange in about:
        for state in states_of(exchange, stage.topic):
            expected = {"NONE"}
            if exchange.api == "LeaderAndIsr":
                epoch = int(state["leader_epoch"])
                if epoch <= known.get(exchange.broker, -1):
                    expected = {"NONE", "STALE_CONTROLLER_EPOCH"}
                known[exchange.broker] = max(epoch, known.get(exchange.broker, -1))
            if _errors(exchange) != expected:
                what = f"{exchange.api} to broker {exchange.broker}, leader epoch {state.get('leader_epoch', '-')}"
                others.append(f"{what}: {' '.join(sorted(_errors(exchange)))}")
    text = "Only a LeaderAndIsr in a leader epoch that the broker has is refused; what differs from that"
    stage.expect(text, others, [])


def _row(exchange: Exchange, state: Mapping[str, Any], first: Exchange) -> dict[str, Any]:
    return {
        "ms": round((exchange.sent_ns - first.sent_ns) / 1e6, 1),
        "request": f"{exchange.api} {exchange.version}",
        "to": exchange.broker,
        "leader": state.get("leader", ""),
        "epoch": state.get("leader_epoch", ""),
        "ISR": list(state.get("isr", ())),
        "replicas": list(state.get("replicas", ())),
        "adding": list(state.get("adding_replicas", ())),
        "removing": list(state.get("removing_replicas", ())),
        "error": " ".join(sorted(_errors(exchange))),
    }


def _errors(exchange: Exchange) -> set[str]:
    """The errors of an answer and of all its partitions, by name; "no answer" where there is none."""
    response = exchange.response
    if response is None:
        return {"no answer"}
    partitions = [*response.get("partition_errors", ())]
    for group in response.get("topics", ()):
        partitions += group["partition_errors"]
    return {error_name(int(found["error_code"])) for found in (response, *partitions)}


def field_names(body: Mapping[str, Any]) -> set[str]:
    """The fields of a part of a message."""
    return {name for name in body if not name.startswith("_")}


def states_of(exchange: Exchange, topic: str) -> list[Mapping[str, Any]]:
    """The partition states of a topic in a request, in whichever form its version has."""
    request = exchange.request
    for flat in ("ungrouped_partition_states", "ungrouped_partitions"):
        if flat in request:
            return [state for state in request[flat] if state["topic_name"] == topic]
    groups: Iterable[Mapping[str, Any]] = request.get("topic_states") or request.get("topics") or ()
    found: list[Mapping[str, Any]] = []
    for group in groups:
        if group.get("topic_name", group.get("name")) == topic:
            states = group.get("partition_states")
            found += states if states is not None else [{"partition_index": i} for i in group["partition_indexes"]]
    return found
