"""The program of a group's member: a process that speaks the client protocol, and dies with the harness."""

from functools import partial

import confluent_kafka

from kafka_chaos.harness.clients.python_client import run, tell, version_of_librdkafka
from kafka_chaos.harness.workload.clients.recorded_producer import SILENT_LOGGER
from kafka_chaos.harness.workload.groups.loop import LoopProcessing
from kafka_chaos.harness.workload.groups.member import Member, MemberLost, OrderInbox
from kafka_chaos.harness.workload.groups.settings import REPLACE_ME, MemberSettings
from kafka_chaos.harness.workload.transactions.producer import ProducerLost


def run_member(settings: MemberSettings) -> int:
    """Run a member until it has to leave; returns the exit code."""
    connect = partial(confluent_kafka.Consumer, logger=SILENT_LOGGER)
    member = Member(settings, connect=connect, tell=tell, orders=OrderInbox())
    tell("ready", client="librdkafka", version=version_of_librdkafka(confluent_kafka))
    try:
        if (output := settings.get("output")) is not None:
            member.processing = LoopProcessing(output, member)
        member.run()
    except (ProducerLost, MemberLost) as lost:
        tell("notice", text=f"its {'producer' if isinstance(lost, ProducerLost) else 'consumer'} is lost: {lost}")
        member.leave()
        return REPLACE_ME
    return 0


if __name__ == "__main__":
    run(run_member)
