"""Which lanes a known defect concerns, one condition at a time, and that the file's entries are read as they are."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.reference_model.protocol.known_defects import ALL_DEFECTS, MODELLED_DEFECTS, require_known

NUMBERED = Lane(lane="a", acks="all", idempotence=True, max_in_flight=5)
UNNUMBERED = replace(NUMBERED, idempotence=False)
TRANSACTIONS = replace(NUMBERED, transactional=Transactional())
EACH_DEFECT: list[tuple[str, Lane, dict[str, Any]]] = [
    ("librdkafka-4953", NUMBERED, {"client": "librdkafka 2.16.0"}),
    ("KAFKA-15591", NUMBERED, {"kafka_version": "2.5.0"}),
    ("kafkajs-1005", NUMBERED, {"client": "kafkajs 2.2.4", "max_in_flight": 2}),
    ("kafkajs-822", UNNUMBERED, {"client": "kafkajs", "acks": "0", "max_in_flight": 2}),
    ("sarama-2619", UNNUMBERED, {"client": "sarama 1.43.3", "max_in_flight": 1}),
    ("sarama-2619", NUMBERED, {"client": "sarama"}),
    ("sarama-3354", NUMBERED, {"client": "sarama"}),
    ("KAFKA-17754", TRANSACTIONS, {"client": "java 3.9.1", "kafka_version": "4.3.1"}),
    ("KAFKA-14402", TRANSACTIONS, {"kafka_version": "3.5.2"}),
    ("KAFKA-14402", TRANSACTIONS, {"kafka_version": "3.6.0", "verifies_transactions": False}),
    ("KAFKA-5385", TRANSACTIONS, {"client": "kafka-python 3.0.12"}),
    ("KAFKA-14397", NUMBERED, {"client": "java 2.8.2"}),
    ("KAFKA-8803", TRANSACTIONS, {"kafka_version": "2.4.1"}),
    ("librdkafka-4844", UNNUMBERED, {"client": "librdkafka 2.13.1", "group": Group()}),
    ("sarama-2365", UNNUMBERED, {"client": "sarama 1.43.3"}),
    ("aiokafka-kip-320", UNNUMBERED, {"client": "aiokafka"}),
    ("kafka-python-2978", UNNUMBERED, {"client": "kafka-python 2.2.15"}),
    ("kafkajs-818", UNNUMBERED, {"client": "kafkajs 2.2.4"}),
    ("librdkafka-4122", UNNUMBERED, {"client": "librdkafka 2.0.2"}),
]
NO_LONGER: list[tuple[str, Lane, dict[str, Any]]] = [
    ("librdkafka-4953", NUMBERED, {"client": "java"}),
    ("librdkafka-4953", UNNUMBERED, {}),
    ("librdkafka-4953", TRANSACTIONS, {}),
    ("KAFKA-15591", NUMBERED, {"kafka_version": "2.4.9"}),
    ("KAFKA-15591", UNNUMBERED, {}),
    ("KAFKA-15591", TRANSACTIONS, {}),
    ("kafkajs-1005", NUMBERED, {"client": "kafkajs", "max_in_flight": 1}),
    ("kafkajs-1005", NUMBERED, {"client": "sarama"}),
    ("kafkajs-1005", UNNUMBERED, {"client": "kafkajs"}),
    ("kafkajs-1005", TRANSACTIONS, {"client": "kafkajs"}),
    ("kafkajs-822", UNNUMBERED, {"client": "kafkajs", "acks": "1"}),
    ("kafkajs-822", UNNUMBERED, {"client": "kafkajs", "acks": "0", "max_in_flight": 1}),
    ("kafkajs-822", UNNUMBERED, {"client": "java", "acks": "0"}),
    ("sarama-2619", UNNUMBERED, {"client": "sarama", "max_in_flight": 2}),
    ("sarama-2619", UNNUMBERED, {"client": "sarama", "max_in_flight": 1, "acks": "0"}),
    ("sarama-2619", UNNUMBERED, {"client": "kafkajs", "max_in_flight": 1}),
    ("sarama-2619", TRANSACTIONS, {"client": "sarama"}),
    ("sarama-3354", NUMBERED, {"client": "kafkajs"}),
    ("sarama-3354", UNNUMBERED, {"client": "sarama"}),
    ("sarama-3354", TRANSACTIONS, {"client": "sarama"}),
    ("KAFKA-17754", TRANSACTIONS, {"client": "java 4.1.1", "kafka_version": "4.3.1"}),
    ("KAFKA-17754", NUMBERED, {"client": "java 3.9.1"}),
    ("KAFKA-14402", TRANSACTIONS, {"kafka_version": "3.6.0"}),
    ("KAFKA-14402", TRANSACTIONS, {"kafka_version": "3.6.0", "verifies_transactions": True}),
    ("KAFKA-14402", TRANSACTIONS, {}),
    ("KAFKA-14402", NUMBERED, {"kafka_version": "3.5.2"}),
    ("KAFKA-5385", TRANSACTIONS, {"client": "java"}),
    ("KAFKA-5385", NUMBERED, {"client": "kafka-python"}),
    ("KAFKA-14397", UNNUMBERED, {"client": "java 2.8.2"}),
    ("KAFKA-14397", TRANSACTIONS, {"client": "java 2.8.2"}),
    ("KAFKA-14397", NUMBERED, {"client": "franz-go 1.18.0"}),
    ("KAFKA-8803", TRANSACTIONS, {"kafka_version": "2.5.0"}),
    ("KAFKA-8803", NUMBERED, {"kafka_version": "2.4.1"}),
    ("librdkafka-4844", UNNUMBERED, {"client": "librdkafka 2.13.2", "group": Group()}),
    ("librdkafka-4844", UNNUMBERED, {"client": "librdkafka 2.13.1"}),
    ("librdkafka-4844", UNNUMBERED, {"client": "java 2.13.1", "group": Group()}),
    ("sarama-2365", UNNUMBERED, {"client": "kafkajs"}),
    ("librdkafka-4122", UNNUMBERED, {"client": "librdkafka 2.1.0"}),
    ("kafka-python-2978", UNNUMBERED, {"client": "kafka-python 3.0.0"}),
    ("kafka-python-2978", UNNUMBERED, {"client": "kafka-python"}),
]


@pytest.mark.parametrize(("id", "lane", "keys"), EACH_DEFECT + NO_LONGER)
def test_a_defect_concerns_lanes_that_have_all_of_its_conditions(id: str, lane: Lane, keys: dict[str, Any]) -> None:
    assert MODELLED_DEFECTS[id].concerns(replace(lane, **keys)) is ((id, lane, keys) in EACH_DEFECT)


def test_a_defect_whose_rule_the_model_does_not_know_concerns_no_lane() -> None:
    others = ALL_DEFECTS.keys() - MODELLED_DEFECTS.keys()
    assert others
    assert not any(ALL_DEFECTS[id].concerns(lane) for id in others for lane in (NUMBERED, UNNUMBERED, TRANSACTIONS))
    assert {id for id, _, _ in EACH_DEFECT} == MODELLED_DEFECTS.keys()


def test_an_unknown_defect_is_refused_where_it_was_given() -> None:
    require_known(MODELLED_DEFECTS, "--accept-known")
    with pytest.raises(UsageFailure) as refused:
        require_known(["KAFKA-15591", "KAFKA-1"], "--accept-known")
    expected = f"expected known defects out of {', '.join(MODELLED_DEFECTS)}"
    assert str(refused.value) == f"--accept-known: 'KAFKA-1': {expected}"
