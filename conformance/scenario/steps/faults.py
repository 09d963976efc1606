"""The steps of scenarios that break brokers, controllers and links, each the same on Kafka and in the model.

A loss of power is played by cutting whole batches from the end of the newest segment of a killed broker, above the
recovery point, since everything below was flushed. At its next start, the broker recovers the log by itself: it
rebuilds the indexes, and cuts the leader epochs to the log's new end.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.conformance.scenario.lockstep import LockStep
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.coordination.leader_transfer import SessionExpiry
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, CONTROLLER_ID_BASE
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage.segments import Record
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.state import (
    ANY_CLIENT,
    CLIENTS,
    CONTROL,
    FOLLOWER,
    HELD_FETCHES,
    QUORUM,
    REPLICATION,
)
from kafka_chaos.reference_model.lockstep.stepping import Step, step

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
Port = Literal["replication", "control"]
Action = Literal["drop", "reject"]
Channel = tuple[str, int, int]
"""Requests of one kind from one node to another: kind, source, target."""


def cut_last_batch(node: Node, topic: str, partition: int) -> tuple[Record, ...]:
    """Cut off the last batch of a log, as a loss of power does; returns the lost records.

    Raises `ClusterFailure` if no loss of power could have done that: the broker runs or was shut down cleanly, the
    batch was flushed, or the newest segment has no batch.
    """
    where = f"{node.name}: {topic}-{partition}"
    if node.is_running():
        raise ClusterFailure(f"{node.name} runs: power is lost on a killed broker only")
    if clean_shutdown_file(node) is not None:
        raise ClusterFailure(f"{node.name} was shut down cleanly, which flushes everything: kill it instead")
    replica = read_replica(node, topic, partition)
    newest = replica.segments[-1] if replica.segments else None
    if newest is None or not newest.batches:
        raise ClusterFailure(f"{where}: there is no batch to cut in its newest segment")
    *kept, last = newest.batches
    if replica.recovery_point is not None and last.base_offset < replica.recovery_point:
        raise ClusterFailure(
            f"{where}: offset {last.base_offset} is below the recovery point {replica.recovery_point}: it was flushed, "
            "a loss of power can't take it"
        )
    name = newest.file.rpartition("/")[2]
    node.write_file(f"{BROKER_DATA}/{topic}-{partition}/{name}", b"".join(batch.data for batch in kept))
    return tuple(last.records())


def clean_shutdown_file(node: Node) -> bytes | None:
    """The file that a controlled shutdown leaves in a broker's log directory; None if the broker ended otherwise.

    Since 3.7 it is JSON, with the broker's last broker epoch (KIP-966).
    """
    from docker.errors import NotFound

    try:
        return node.read_file(f"{BROKER_DATA}/{_CLEAN_SHUTDOWN}")
    except NotFound:
        return None


def cut_steps(*channels: Channel) -> list[Step]:
    """The actions of the model that close channels."""
    return [step("cut", channel=channel, source=source, target=target) for channel, source, target in channels]


def heal_steps(*channels: Channel) -> list[Step]:
    """The actions of the model that open channels again."""
    return [step("heal", channel=channel, source=source, target=target) for channel, source, target in channels]


@dataclass
class FaultSteps(LockStep):
    """The stage of a running act, with the steps that are faults."""

    model: ClusterModel
    _cuts: dict[Channel, Partition] = field(default_factory=dict)
    _open_at_thaw: Sequence[Channel] = ()
    """The channels of clients that `Stage.produce` with `knows_only` has closed until the frozen broker continues."""
    watches: ExitStack = field(default_factory=ExitStack)
    """The captures and polls that steps have begun; closing the stack ends them, with the act at the latest."""

    def lose_power(self, broker: int, *, kept: int, lost: str) -> None:
        """Let a killed broker lose its last batch, so that its log ends at `kept`; the story calls the batch `lost`."""
        self.take(
            f"Power loss at {self.name(broker)}: {lost} is gone.",
            lambda: cut_last_batch(self.node(broker), self.topic, 0),
            step("power_loss", broker=broker, kept=kept),
        )

    def kill(self, *brokers: int) -> None:
        """Kill brokers (SIGKILL), one after the other; each step ends when the controller has reacted."""
        for broker in brokers:
            self._do(f"{self.name(broker)} is killed (SIGKILL).", self.node(broker).kill, step("kill", broker=broker))

    def stop(self, broker: int) -> None:
        """Shut a broker down (SIGTERM), which is a controlled shutdown."""
        self._do(f"{self.name(broker)} is shut down (SIGTERM).", self.node(broker).stop, step("stop", broker=broker))

    def stop_without_control(self, broker: int) -> None:
        """Shut down (SIGTERM) a broker that has controlled shutdown switched off. In the model, this is a kill."""
        self._do(f"{self.name(broker)} is shut down (SIGTERM).", self.node(broker).stop, step("kill", broker=broker))

    def start(self, broker: int, *, how: str = "") -> None:
        """Restart a broker; `how` completes the sentence of the story."""
        # The packet filter rules in its container vanish with the container's network.
        lifted = [channel for channel in self._cuts if channel[2] == broker]
        for channel in lifted:
            del self._cuts[channel]
        self._do(
            f"{self.name(broker)} is restarted{how and ' '}{how}.",
            lambda: self.lease.cluster.start_again([self.node(broker)]),
            step("start", broker=broker),
            *heal_steps(*lifted),
        )

    def pause(self, broker: int) -> None:
        """Freeze a broker until its session expires."""
        self._do(
            f"{self.name(broker)} is frozen until its session expires.",
            self.node(broker).pause,
            step("pause", broker=broker),
            step("expire_session", broker=broker),
        )

    def freeze(self, broker: int) -> None:
        """Freeze a broker for less than its session time-out."""
        self._do(f"{self.name(broker)} is frozen.", self.node(broker).pause, step("pause", broker=broker))

    def expire_session(self, broker: int) -> None:
        """Let ZooKeeper end a broker's session while the broker runs on and begins a new session."""
        fault, nodes = SessionExpiry(target=Target.parse(f"broker:{broker}")), (self.node(broker),)
        self._do(
            f"The session of {self.name(broker)} ends while it runs on.",
            lambda: fault.inject(self.lease.view, nodes),
            step("expire_session", broker=broker),
        )

    def thaw(self, broker: int) -> None:
        """Let a frozen broker continue."""
        opened = heal_steps(*self._open_at_thaw)
        self._open_at_thaw = ()
        self._do(f"{self.name(broker)} continues.", self.node(broker).unpause, step("thaw", broker=broker), *opened)

    def cut(self, source: int, target: int, *, channel: Port = "replication", action: Action = "reject") -> None:
        """Cut requests from one broker to another: fetches (`replication`) or a controller's (`control`)."""
        fault = _partition(source, target, channel, action)
        replicas = (state.replica(source) for state in self.model.states)
        follows = channel == "replication" and all(
            replica.runs and replica.role == FOLLOWER and replica.leader == target for replica in replicas
        )
        nodes = (self.node(target),)

        def cut() -> None:
            fault.inject(self.lease.view, nodes)
            if follows:
                # Until the connection breaks, the follower can still get the answer to a fetch that it sent before.
                wait_until(
                    lambda: fault.proof(self.lease.view, nodes).took_effect,
                    f"{self.name(source)}'s connection to {self.name(target)} to break",
                    timeout=40,
                )

        self._cuts[channel, source, target] = fault
        requests = "fetches" if channel == "replication" else "control requests"
        sentence = f"{self.name(source)}'s {requests} no longer reach {self.name(target)}."
        self._do(sentence, cut, *cut_steps((channel, source, target)))

    def hold_next_fetch(self, source: int, target: int) -> None:
        """Hold a follower's next fetch on its way to the leader; the answer to its present fetch still arrives."""
        # Packets from the follower vanish, and packets to it arrive.
        fault = self._cuts[HELD_FETCHES, source, target] = _partition(source, target, "replication", "drop")
        self._do(
            f"{self.name(source)}'s next fetch will be held on its way to {self.name(target)}.",
            lambda: fault.inject(self.lease.view, (self.node(target),)),
            *cut_steps((HELD_FETCHES, source, target)),
        )

    def heal(self, source: int, target: int, *, channel: str = "replication") -> None:
        """Heal a cut."""
        fault = self._cuts.pop((channel, source, target))
        self._do(
            f"{self.name(source)} reaches {self.name(target)} again.",
            lambda: fault.heal(self.lease.view, (self.node(target),)),
            *heal_steps((channel, source, target)),
        )

    def isolate(self, broker: int) -> None:
        """Cut a broker off from all other nodes until its session expires; clients still reach it.

        Producers that send meanwhile should not ask this broker for the leader (`asks` of `Stage.produce`).
        """
        self._do(
            f"{self.name(broker)} is cut off from all other nodes.",
            lambda: self.lease.isolation(broker).install(self.node(broker)),
            *cut_steps(*self._isolation_channels(broker)),
            step("expire_session", broker=broker, returns=False),
        )

    def rejoin(self, broker: int) -> None:
        """End a broker's isolation."""
        self._do(
            f"{self.name(broker)} reaches all other nodes again.",
            lambda: self.lease.isolation(broker).remove(self.node(broker)),
            *heal_steps(*self._isolation_channels(broker)),
            step("register", broker=broker),
        )

    def kill_controllers(self, *controllers: int) -> None:
        """Kill dedicated controllers (SIGKILL), by node id."""
        nodes = [self.controller_node(controller) for controller in controllers]

        def kill() -> None:
            for node in nodes:
                node.kill()

        self._do(f"{_with_verb(nodes)} killed (SIGKILL).", kill, step("kill_controllers", controllers=controllers))

    def start_controllers(self, *controllers: int) -> None:
        """Restart controllers that were killed."""
        nodes = [self.controller_node(controller) for controller in controllers]
        started = step("start_controllers", controllers=controllers)
        self._do(f"{_with_verb(nodes)} restarted.", lambda: self.lease.cluster.start_again(nodes), started)

    def cut_off_controller(self, controller: int) -> None:
        """Cut a controller off from the other controllers; brokers still reach it."""
        fault, node = _controller_cut(controller), self.controller_node(controller)
        sentence = f"{node.name} is cut off from the other controllers; brokers still reach it."
        closed = cut_steps(*self._quorum_channels(controller))
        self._do(sentence, lambda: fault.inject(self.lease.view, (node,)), *closed)

    def reconnect_controller(self, controller: int) -> None:
        """Let a controller that was cut off reach the other controllers again."""
        fault, node = _controller_cut(controller), self.controller_node(controller)
        opened = heal_steps(*self._quorum_channels(controller))
        self._do(f"{node.name} reaches the others again.", lambda: fault.heal(self.lease.view, (node,)), *opened)

    def controller_node(self, controller: int) -> Node:
        """The container of a dedicated controller, by its node id."""
        return next(node for node in self.lease.cluster.controllers.values() if node.number == controller)

    def _do(self, sentence: str, on_kafka: Callable[[], object], *actions: Step) -> None:
        self.take(sentence[0].upper() + sentence[1:], on_kafka, *actions)  # A node's name may begin the sentence.

    def _isolation_channels(self, broker: int) -> list[Channel]:
        """The channels that a broker's isolation closes, without those that another step has cut already."""
        others = [other for other in self.act.replicas if other != broker]
        channels = [
            *((REPLICATION, other, broker) for other in others),
            *((REPLICATION, broker, other) for other in others),
            *((CONTROL, other, broker) for other in others),
            (CLIENTS, ANY_CLIENT, broker),
        ]
        return [channel for channel in channels if channel not in self._cuts]

    def _quorum_channels(self, controller: int) -> list[Channel]:
        return [(QUORUM, controller, other) for other in self.lease.profile.voters if other != controller]


def _partition(source: int, target: int, port: Port, action: Action) -> Partition:
    """The fault that drops or rejects the requests from one broker to a port of another."""
    broker = Target.parse(f"broker:{target}")
    return Partition(target=broker, direction="in", port=port, action=action, peers=(source,))


def _controller_cut(controller: int) -> Partition:
    """The fault that cuts a controller off from the other controllers."""
    return Partition(target=Target.parse(f"controller:{controller - CONTROLLER_ID_BASE}"), port="control")


def _with_verb(nodes: Sequence[Node]) -> str:
    names = [node.name for node in nodes]
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"
