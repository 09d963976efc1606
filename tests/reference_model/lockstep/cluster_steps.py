"""The steps of the cluster model as its tests write them."""

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, Partition
from kafka_chaos.reference_model.lockstep.stepping import Step, step


def produce(record: str, acks: str = "all", producer: str = "p", *, idempotent: bool = False) -> Step:
    return step("produce", record=record, acks=acks, producer=producer, idempotent=idempotent)


def cut(source: int, target: int, channel: str = "replication") -> Step:
    return step("cut", channel=channel, source=source, target=target)


def heal(source: int, target: int, channel: str = "replication") -> Step:
    return step("heal", channel=channel, source=source, target=target)


def run(config: ClusterConfig, *steps: Step) -> ClusterModel:
    model = ClusterModel(config)
    for one in steps:
        model.apply(one)
    return model


def the_partition(model: ClusterModel) -> Partition:
    (partition,) = {state.partition for state in model.states}
    return partition
