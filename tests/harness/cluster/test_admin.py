"""A request that librdkafka gives up, since its broker is missing in the metadata, is sent again; others are not."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.harness.cluster.admin import ClusterAdmin

GIVEN_UP, EXISTS = KafkaError._DESTROY_BROKER, KafkaError.TOPIC_ALREADY_EXISTS


class Answering:
    """Every request of this client gets the next of the given answers: an error's code, or None."""

    def __init__(self, *answers: int | None) -> None:
        self.answers: Iterator[int | None] = iter(answers)

    def __getattr__(self, request: str) -> Any:
        def ask(asked: list[Any], *, request_timeout: float) -> dict[Any, Future[None]]:
            future: Future[None] = Future()
            code = next(self.answers)
            future.set_exception(KafkaException(KafkaError(code))) if code else future.set_result(None)
            return {getattr(one, "topic", one): future for one in asked}

        return ask


def admin(*answers: int | None) -> ClusterAdmin:
    made = ClusterAdmin("127.0.0.1:1")
    made._client = Answering(*answers)  # type: ignore[assignment]
    return made


def create(made: ClusterAdmin) -> None:
    made.create_topic("a", replica_assignment=[[1]], configs={})


@pytest.mark.parametrize(
    "answers", [(None,), (GIVEN_UP, None), (GIVEN_UP, GIVEN_UP, EXISTS)], ids=["at once", "again", "carried out"]
)
def test_a_topic_is_created_once(answers: tuple[int | None, ...]) -> None:
    made = admin(*answers)
    create(made)
    assert list(made._client.answers) == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((EXISTS, None), "Topic 'a' already exists|already exists"),
        ((GIVEN_UP, KafkaError.TOPIC_AUTHORIZATION_FAILED), "uthorization failed"),
    ],
    ids=["it was there", "another error"],
)
def test_any_other_error_ends_it(answers: tuple[int | None, ...], why: str) -> None:
    with pytest.raises(ClusterFailure, match=f"topic a could not be created: .*({why})"):
        create(admin(*answers))


def test_partitions_are_added_once_and_topics_deleted_as_far_as_they_are_there() -> None:
    with pytest.raises(ClusterFailure, match="topic a could not be deleted"):
        admin(KafkaError.UNKNOWN_TOPIC_OR_PART).delete_topics(["a"])
    admin(GIVEN_UP, KafkaError.INVALID_PARTITIONS).add_partitions("a", 2, replica_assignment=[[1]])
    with pytest.raises(ClusterFailure, match="partitions could not be added to topic a"):
        admin(KafkaError.INVALID_PARTITIONS).add_partitions("a", 2, replica_assignment=[[1]])
