"""The groups of a lane: the one that reads it, and the one that feeds its loop."""

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.lane.groups import IN_TRANSACTION, Group, group_of, loop_group_of
from kafka_chaos.contract.lane.transactions import READ_COMMITTED, Transactional
from kafka_chaos.harness.clients.kinds import ChosenClient, chosen
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.groups.load import MEMBER_MODULE, GroupLoad
from kafka_chaos.harness.workload.groups.settings import MEMBER, MemberSettings, OutputSettings
from kafka_chaos.harness.workload.groups.work import GroupWork, StartMember
from kafka_chaos.harness.workload.processes.supervisor import SupervisedProcess, Taker
from kafka_chaos.harness.workload.settings import LoadSettings

_LEARNS_SOON = {"topic.metadata.refresh.interval.ms": "1000"}
"""A group is given new partitions once a member learns of them: by default, after five minutes at the latest."""


def group_reading(lane: LaneSpec, load: LoadSettings) -> GroupLoad:
    """The members of the lane's group."""
    assert lane.group is not None
    return _group(lane, load, read=lane, group_id=group_of(lane.lane), settings=lane.group)


def loop_between(source: LaneSpec, lane: LaneSpec, load: LoadSettings) -> GroupLoad:
    """The members of the lane's loop, in the place of its producers. They go on until their source is at its end."""
    loop, transactions = lane.loop, lane.transactional or Transactional()
    assert loop is not None
    configs = load.producer_configs(lane)
    # Members bring the logger that keeps their clients silent.
    configs.pop("logger", None)
    if loop.offsets == IN_TRANSACTION:
        configs["transactional.id"] = lane.lane
    output = OutputSettings(
        lane=lane.lane,
        topic=lane.topic_name,
        partitions=lane.partitions,
        record_size=load.workload.record_size,
        producer_id=0,
        configs=configs,
        offsets=loop.offsets,
        size=transactions.size,
        abort=transactions.abort,
        seed=f"{load.seed}/{lane.lane}",
        run_directory=str(load.tables.run_directory.resolve()),
    )
    return _group(lane, load, read=source, group_id=loop_group_of(lane.lane), settings=loop.group, output=output)


def _group(
    lane: LaneSpec,
    load: LoadSettings,
    *,
    read: LaneSpec,
    group_id: str,
    settings: Group,
    output: OutputSettings | None = None,
) -> GroupLoad:
    """The members of a group that reads the lane `read`; `lane` says of which client they are."""
    work = GroupWork(
        group_id=group_id,
        settings=settings,
        lane=read.lane,
        topic=read.topic_name,
        partitions=read.partitions,
        isolation=READ_COMMITTED,
        bootstrap_servers=load.bootstrap_servers,
        configs={**(_LEARNS_SOON if read.grows else {}), **lane.consumer_configs},
        client_configs=load.client_configs,
        duration=load.workload.duration - (lane.created_at or 0.0),
        output=output,
    )
    start = _starting(lane, load)
    return GroupLoad(
        work, load.tables, on_notice=load.on_notice, on_change=load.on_change, start=start, calls=load.calls
    )


def _starting(lane: LaneSpec, load: LoadSettings) -> StartMember | None:
    """Starts members that are processes of the lane's client; None for the harness's own.

    Members with librdkafka of another version are the harness's own, too, but for their library.
    """
    client = chosen(lane.client)
    if not isinstance(client, ChosenClient):
        return None
    packages = client.packages
    command = () if packages is None else command_of(MEMBER_MODULE, packages=packages)

    def started(settings: MemberSettings, rows: Taker) -> SupervisedProcess:
        values = settings.to_json()
        # Those for a secured listener have librdkafka's names.
        configs = {key: value for key, value in values.pop("configs").items() if key not in load.client_configs}
        return load.start(lane, MEMBER, settings.name, values, configs, command=command, may_end=True)(rows)

    return started
