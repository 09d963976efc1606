"""To which partitions a producer sends: to all that it knows in turn, and from some moment on to new ones, too."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from confluent_kafka import KafkaException

_ASK_EVERY = 0.5
_ASK_TIMEOUT = 1.0


class InTurn:
    """Record `seq` goes to partition `seq` modulo their number when it was sent, counted from partition `first` on.

    `grow` belongs to the sender.
    """

    def __init__(self, count: int, *, first: int = 0) -> None:
        self.count = count
        self.first = first
        self._first_seqs = [0]
        self._counts = [count]

    def grow(self, count: int, first_seq: int) -> None:
        """From this record on, there are so many partitions."""
        self.count = count
        self._counts.append(count)
        self._first_seqs.append(first_seq)

    def of(self, seqs: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """The partitions of these records."""
        known = np.searchsorted(np.array(self._first_seqs), seqs, side="right") - 1
        numbers: npt.NDArray[np.int64] = self.first + seqs % np.array(self._counts)[known]
        return numbers.astype(np.int32)


def known_partitions(client: Any, topic: str) -> int:
    """How many partitions of a topic the cluster tells a client, which then knows them; 0 while nobody tells."""
    try:
        found = client.list_topics(topic, timeout=_ASK_TIMEOUT).topics[topic]
    except KafkaException:
        return 0
    return len(found.partitions) if found.error is None else 0


class Learning:
    """Asks the cluster again and again, in a thread, until a topic has grown to `most` partitions.

    A client does the same of its own accord, only less often (`topic.metadata.refresh.interval.ms`, five minutes).
    """

    def __init__(self, client: Any, topic: str, *, most: int, learned: Callable[[int], None]) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(client, topic, most, learned), name=f"partitions-of-{topic}", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Ask no more; the client may be closed afterwards."""
        self._ended.set()
        self._thread.join()

    def _run(self, client: Any, topic: str, most: int, learned: Callable[[int], None]) -> None:
        found = 0
        while found < most and not self._ended.wait(_ASK_EVERY):
            found = known_partitions(client, topic)
            if found:
                learned(found)
