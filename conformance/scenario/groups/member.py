"""The process of a group's member, which polls, processes and commits only when the scenario commands it.

Between batches all partitions are paused: the member takes part in rebalances and is given nothing. In the middle of a
batch it does not poll. When its standard input ends, because the harness has ended, it dies without leaving the group.
"""

import json
import logging
import os
import select
import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_chaos.contract.lane.groups import AFTER, BEFORE
from kafka_chaos.faults.helper import STDIN, Commands
from kafka_chaos.harness.workload.groups.commits import generation_of

POLL_TIMEOUT = 30.0  # seconds within which a record must be given
_POLL_SECONDS = 0.05  # the length of a single poll

# The client logs what it also reports; a broken cluster would fill the terminal.
_SILENT = logging.Logger("kafka_chaos.scenario.member")
_SILENT.addHandler(logging.NullHandler())


class SteppedMember:
    """A member that reads `topic` in batches of one record. If `commits` is `after`, a batch ends with its commit, else
    with its processing. `incremental`: a rebalance names only the partitions that the member gets or gives back."""

    def __init__(self, topic: str, commits: str, configs: dict[str, Any], *, incremental: bool) -> None:
        self._topic = topic
        self._commits = commits
        self._incremental = incremental
        self._partitions: set[int] = set()
        self._record: tuple[int, int] | None = None
        self._last_offsets: dict[int, int] = {}
        self.has_left = False
        self._client = Consumer(configs, logger=_SILENT)
        self._client.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)

    def serve(self) -> None:
        """Take part in rebalances between batches; in the middle of a batch, only wait."""
        if self._record is None:
            message = self._client.poll(_POLL_SECONDS)
            if message is not None and message.error() is None:
                raise RuntimeError(f"got offset {message.offset()}, though no step asked for a record")
        else:
            time.sleep(_POLL_SECONDS)

    def poll(self, partition: int) -> dict[str, Any]:
        """Poll until one record of a partition is given. The answer's `offset` is None if no record comes in time."""
        assignment = [TopicPartition(self._topic, partition)]
        deadline = time.monotonic() + POLL_TIMEOUT
        while time.monotonic() < deadline:
            if partition in self._partitions:
                self._client.resume(assignment)
            message = self._client.poll(_POLL_SECONDS)
            if message is not None and message.error() is None:
                self._client.pause(assignment)
                offset = message.offset() or 0
                self._record, self._last_offsets[partition] = (partition, offset), offset
                return {"offset": offset}
        if partition in self._partitions:
            self._client.pause(assignment)
        return {"offset": None}

    def process(self) -> dict[str, Any]:
        """Process the record in hand, and answer its partition and offset."""
        assert self._record is not None
        partition, offset = self._record
        if self._commits != AFTER:
            self._record = None
        return {"partition": partition, "offset": offset}

    def commit(self, partition: int) -> dict[str, Any]:
        """Commit the offset after the last record that was given. Answers this offset, and the error if any."""
        offset = self._last_offsets[partition] + 1
        error = None
        try:
            answers = self._client.commit(offsets=[TopicPartition(self._topic, partition, offset)], asynchronous=False)
            failed = [answer.error for answer in answers or () if answer.error is not None]
            error = failed[0].name() if failed else None
        except KafkaException as failure:
            error = failure.args[0].name()
        return {"offset": offset, "error": error}

    def end_batch(self, refused: bool) -> dict[str, Any]:
        """End the batch after the final answer to its commit. If the record was committed `before` its processing, and
        the commit was not refused, the batch goes on: the record is still to be processed."""
        if self._commits != BEFORE or refused:
            self._record = None
        return {}

    def tell(self) -> dict[str, Any]:
        """Answer the member's `id`; between batches also its `generation` (0: none) and the partitions it `has`."""
        answer = {"id": self._client.memberid(), "generation": None, "has": None}
        if self._record is not None:
            return answer
        generation = generation_of(self._client.consumer_group_metadata())
        return answer | {"generation": generation or 0, "has": sorted(self._partitions)}

    def leave(self) -> dict[str, Any]:
        """Leave the group, as an orderly shutdown does."""
        self._client.close()
        self.has_left = True
        return {}

    def _on_assign(self, client: Consumer, partitions: list[TopicPartition]) -> None:
        if self._incremental:
            client.incremental_assign(partitions)
        else:
            client.assign(partitions)
        client.pause(partitions)
        self._partitions |= {partition.partition for partition in partitions}

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._partitions -= {partition.partition for partition in partitions}


def main() -> None:
    """Run the member until it has left its group, or the harness has ended."""
    member = SteppedMember(**json.loads(sys.argv[1]))
    commands = Commands(lambda command, values: getattr(member, command)(**values))
    is_over = False
    while not (is_over or member.has_left):
        member.serve()
        # `read` serves the commands that have arrived, and tells whether standard input has ended.
        is_over = bool(select.select([STDIN], [], [], 0)[0]) and commands.read()
    # Without closing the client: a member whose harness has ended dies without leaving the group.
    os._exit(0)


if __name__ == "__main__":
    main()
