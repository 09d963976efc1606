"""Waits until what leaders have appended is replicated.

A leader acknowledges a record with acks=1 before its followers have it, and followers stay in the ISR for
`replica.lag.time.max.ms` without it. So a full ISR does not tell that consumers get everything that is in the log: the
high watermark, which is where the log ends for them, may lie before its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafka_chaos.contract.errors import counted, first_of
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.broker.answers import NONE
from kafka_chaos.harness.cluster.broker.client import BrokerClient
from kafka_chaos.harness.cluster.broker.login import BrokerUnreachable, MechanismUnknown
from kafka_chaos.harness.waiting import wait_until

_ANSWER_TIMEOUT = 5.0


def await_replicated(admin: ClusterAdmin, lanes: Sequence[str], *, timeout: float = 60.0) -> None:
    """Wait until the high watermark of every partition of these lanes is the end of its leader's log.

    Every broker that says it leads a partition has to confirm it. Raises `WaitTimeout`, and `MechanismUnknown` where no
    broker can be asked.
    """
    partitions = {admin.topic(lane): admin.partition_numbers(lane) for lane in lanes}
    configs = {key: str(value) for key, value in admin.configs.items()}
    behind: list[str] = []

    def replicated() -> bool:
        behind[:] = _behind(admin.addresses().values(), partitions, configs)
        return not behind

    what = f"the records of {counted(len(lanes), 'lane')} to be replicated"
    wait_until(replicated, what, timeout=timeout, interval=0.1, seen=lambda: first_of(behind))


def _behind(addresses: Iterable[str], partitions: Mapping[str, Sequence[int]], configs: Mapping[str, str]) -> list[str]:
    """The partitions that nobody leads, or whose leader's high watermark is not the end of its log, in words."""
    unknown = {(topic, number): "no leader tells its end" for topic, of in partitions.items() for number in of}
    lagging: dict[tuple[str, int], str] = {}
    for address in addresses:
        try:
            with BrokerClient(address, timeout=_ANSWER_TIMEOUT, configs=configs) as client:
                # The end of the log first: a high watermark that is asked for later has to have reached it.
                ends = client.log_ends(partitions)
                marks = client.latest_offsets(partitions)
        except MechanismUnknown:
            raise
        except BrokerUnreachable:
            continue
        for place in [place for place, (error, _) in marks.items() if error == NONE]:
            unknown.pop(place, None)
            (error, end), (_, mark) = ends[place], marks[place]
            if error != NONE or mark < end:
                lagging[place] = f"high watermark {mark}, log end {end if error == NONE else 'not told'}"
    return [f"{topic}-{number}: {why}" for (topic, number), why in {**unknown, **lagging}.items()]
