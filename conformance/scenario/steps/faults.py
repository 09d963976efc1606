"""The steps of scenarios that are faults of brokers and controllers, each the same on Kafka and in the model.

A loss of power takes only what it can take: whole batches from the end of the newest segment, above the recovery point
(everything below was flushed), on a broker that was killed. The broker finds out by itself at its next start, when it
recovers the log: indexes are rebuilt there, the leader epochs cut to the log's new end.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from kafka_chaos.conformance.replica import read_replica
from kafka_chaos.conformance.scenario.lockstep import LockStep
from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.coordination.leader_transfer import SessionExpiry
from kafka_chaos.faults.fault import Fault, build
from kafka_chaos.faults.network.partition import Partition
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.cluster.configuration.server_properties import BROKER_DATA, CONTROLLER_IDS
from kafka_chaos.harness.cluster.node import Node
from kafka_chaos.harness.cluster.storage.segments import Record
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, step
from kafka_chaos.reference_model.lockstep.state import CLIENT, CLIENTS, CONTROL, FOLLOWER, QUORUM, REPLICATION
from kafka_chaos.reference_model.lockstep.stepping import Step

_CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
Channel = tuple[str, int, int]
"""The way of requests of a kind, from a broker to a broker."""


def cut_last_batch(node: Node, topic: str, partition: int) -> tuple[Record, ...]:
    """Cut the log's last batch off, as a loss of power would have; returns the records that are gone.

    Raises `ClusterFailure` where no loss of power could have done that: the broker runs or was shut down cleanly, the
    batch was flushed, or the newest segment has none.
    """
    place = f"{node.name}: {topic}-{partition}"
    if node.is_running():
        raise ClusterFailure(f"{node.name} runs: power is lost on a killed broker only")
    if clean_shutdown_file(node) is not None:
        raise ClusterFailure(f"{node.name} was shut down cleanly, which flushes everything: kill it instead")
    replica = read_replica(node, topic, partition)
    newest = replica.segments[-1] if replica.segments else None
    if newest is None or not newest.batches:
        raise ClusterFailure(f"{place}: there is no batch to cut in its newest segment")
    *kept, last = newest.batches
    if replica.recovery_point is not None and last.base_offset < replica.recovery_point:
        raise ClusterFailure(
            f"{place}: offset {last.base_offset} is below the recovery point {replica.recovery_point}: it was flushed, "
            "a loss of power can't take it"
        )
    name = newest.file.rpartition("/")[2]
    node.write_file(f"{BROKER_DATA}/{topic}-{partition}/{name}", b"".join(batch.data for batch in kept))
    return tuple(last.records())


def clean_shutdown_file(node: Node) -> bytes | None:
    """The file that a broker's controlled shutdown leaves in its log directory; None where its process ended otherwise.

    Since 3.7 it is JSON, with the broker epoch that the broker had (KIP-966).
    """
    from docker.errors import NotFound

    try:
        return node.read_file(f"{BROKER_DATA}/{_CLEAN_SHUTDOWN}")
    except NotFound:
        return None


def cuts(*channels: Channel) -> list[Step]:
    """The model's actions that close channels."""
    return [step("cut", channel=channel, source=source, target=target) for channel, source, target in channels]


def healed(*channels: Channel) -> list[Step]:
    """The model's actions that open channels again."""
    return [step("heal", channel=channel, source=source, target=target) for channel, source, target in channels]


@dataclass
class FaultSteps(LockStep):
    """The faults of a running act."""

    model: ClusterModel
    _cuts: dict[Channel, Fault] = field(default_factory=dict)
    _unknown: Sequence[Channel] = ()
    """Brokers that a producer does not ask before a frozen broker continues."""
    watching: ExitStack = field(default_factory=ExitStack)
    """Ends what steps have begun to watch; with the act at the latest."""

    def lose_power(self, broker: int, *, kept: int, lost: str) -> None:
        """A broker that was killed loses what it had not flushed; `lost` is what, as the story says it."""
        self.take(
            f"Power loss at {self.name(broker)}: {lost} is gone.",
            lambda: cut_last_batch(self.node(broker), self.topic, 0),
            step("power_loss", broker=broker, kept=kept),
        )

    def kill(self, *brokers: int) -> None:
        """SIGKILL, one broker after the other; each step ends when the controller has reacted."""
        for broker in brokers:
            self._do(f"{self.name(broker)} is killed (SIGKILL).", self.node(broker).kill, step("kill", broker=broker))

    def stop(self, broker: int) -> None:
        """SIGTERM: a controlled shutdown."""
        self._do(f"{self.name(broker)} is shut down (SIGTERM).", self.node(broker).stop, step("stop", broker=broker))

    def stop_without_control(self, broker: int) -> None:
        """SIGTERM to a broker whose controlled shutdown is switched off."""
        self._do(f"{self.name(broker)} is shut down (SIGTERM).", self.node(broker).stop, step("kill", broker=broker))

    def start(self, broker: int, *, how: str = "") -> None:
        """Restart a broker; `how`: what the story says of it."""
        # Packet filter rules go with the container's network.
        lifted = [cut for cut in self._cuts if cut[2] == broker]
        for cut in lifted:
            del self._cuts[cut]
        self._do(
            f"{self.name(broker)} is restarted{how and ' '}{how}.",
            lambda: self.lease.cluster.start_again([self.node(broker)]),
            step("start", broker=broker),
            *healed(*lifted),
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
        """Freeze a broker for less than its session."""
        self._do(f"{self.name(broker)} is frozen.", self.node(broker).pause, step("pause", broker=broker))

    def expire_session(self, broker: int) -> None:
        """ZooKeeper ends a broker's session while it runs on; it gets another one."""
        at = Target(f"broker:{broker}", "broker", number=broker)
        fault, nodes = SessionExpiry(target=at), (self.node(broker),)
        self._do(
            f"The session of {self.name(broker)} ends while it runs on.",
            lambda: fault.inject(self.lease.view, nodes),
            step("expire_session", broker=broker),
        )

    def thaw(self, broker: int) -> None:
        """Let a frozen broker continue."""
        known = healed(*self._unknown)
        self._unknown = ()
        self._do(f"{self.name(broker)} continues.", self.node(broker).unpause, step("thaw", broker=broker), *known)

    def cut(self, source: int, target: int, *, channel: str = "replication", action: str = "reject") -> None:
        """Requests from one broker to another no longer arrive: replication (follower → leader) or control."""
        fault = _partition(source, target, channel, action)
        sources = [state.replica(source) for state in self.model.states if channel == "replication"]
        follows = bool(sources) and all(one.runs and one.role == FOLLOWER and one.leader == target for one in sources)
        nodes = (self.node(target),)

        def cut() -> None:
            fault.inject(self.lease.view, nodes)
            if follows:
                # Until its connection breaks, a follower still gets the answer to the fetch that it has sent.
                wait_until(
                    lambda: fault.proof(self.lease.view, nodes).took_effect,
                    f"{self.name(source)}'s connection to {self.name(target)} to break",
                    timeout=40,
                )

        self._cuts[channel, source, target] = fault
        what = "fetches" if channel == "replication" else "control requests"
        sentence = f"{self.name(source)}'s {what} no longer reach {self.name(target)}."
        self._do(sentence, cut, *cuts((channel, source, target)))

    def hold_next_fetch(self, source: int, target: int) -> None:
        """The leader's answer to the fetch that waits there still arrives; the follower's next fetch does not."""
        # Packets from the follower vanish, those to it arrive.
        fault = self._cuts["held", source, target] = _partition(source, target, "replication", "drop")
        self._do(
            f"{self.name(source)}'s next fetch will be held on its way to {self.name(target)}.",
            lambda: fault.inject(self.lease.view, (self.node(target),)),
            *cuts(("held", source, target)),
        )

    def heal(self, source: int, target: int, *, channel: str = "replication") -> None:
        """Heal a cut."""
        fault = self._cuts.pop((channel, source, target))
        self._do(
            f"{self.name(source)} reaches {self.name(target)} again.",
            lambda: fault.heal(self.lease.view, (self.node(target),)),
            *healed((channel, source, target)),
        )

    def isolate(self, broker: int) -> None:
        """Cut a broker off from all other nodes until its session expires; clients still reach it.

        Producers that send meanwhile should not ask it for the leader: see `reachable`.
        """
        self._do(
            f"{self.name(broker)} is cut off from all other nodes.",
            lambda: self.lease.isolation(broker).install(self.node(broker)),
            *cuts(*self._around(broker)),
            step("expire_session", broker=broker, returns=False),
        )

    def rejoin(self, broker: int) -> None:
        """End a broker's isolation."""
        self._do(
            f"{self.name(broker)} reaches all other nodes again.",
            lambda: self.lease.isolation(broker).remove(self.node(broker)),
            *healed(*self._around(broker)),
            step("register", broker=broker),
        )

    def kill_controllers(self, *controllers: int) -> None:
        """SIGKILL of controllers that are no brokers, by node id."""
        nodes = [self.controller_node(one) for one in controllers]

        def kill() -> None:
            for node in nodes:
                node.kill()

        self._do(f"{_listed(nodes)} killed (SIGKILL).", kill, step("kill_controllers", controllers=controllers))

    def start_controllers(self, *controllers: int) -> None:
        """Restart controllers that were killed."""
        nodes = [self.controller_node(one) for one in controllers]
        started = step("start_controllers", controllers=controllers)
        self._do(f"{_listed(nodes)} restarted.", lambda: self.lease.cluster.start_again(nodes), started)

    def cut_off_controller(self, controller: int) -> None:
        """Cut a controller off from the other controllers; brokers still reach it."""
        fault, node = _controller_cut(controller), self.controller_node(controller)
        sentence = f"{node.name} is cut off from the other controllers; brokers still reach it."
        closed = cuts(*self._between_controllers(controller))
        self._do(sentence, lambda: fault.inject(self.lease.view, (node,)), *closed)

    def reconnect_controller(self, controller: int) -> None:
        """Heal such a cut."""
        fault, node = _controller_cut(controller), self.controller_node(controller)
        opened = healed(*self._between_controllers(controller))
        self._do(f"{node.name} reaches the others again.", lambda: fault.heal(self.lease.view, (node,)), *opened)

    def controller_node(self, controller: int) -> Node:
        """The container of a controller that is no broker, by its node id."""
        return next(node for node in self.lease.cluster.controllers.values() if node.number == controller)

    def _do(self, sentence: str, act: Callable[[], object], *actions: Step) -> None:
        self.take(sentence[0].upper() + sentence[1:], act, *actions)

    def _around(self, broker: int) -> list[Channel]:
        """The channels that a broker's isolation closes, without those that a step of their own has cut."""
        others = [other for other in self.act.replicas if other != broker]
        around = [
            *((REPLICATION, other, broker) for other in others),
            *((REPLICATION, broker, other) for other in others),
            *((CONTROL, other, broker) for other in others),
            (CLIENTS, CLIENT, broker),
        ]
        return [channel for channel in around if channel not in self._cuts]

    def _between_controllers(self, controller: int) -> list[Channel]:
        return [(QUORUM, controller, other) for other in self.lease.profile.voters if other != controller]


def _partition(source: int, target: int, port: str, action: str) -> Fault:
    """Requests from one broker to a port of another are dropped or rejected."""
    at = Target(f"broker:{target}", "broker", number=target)
    keys = {"direction": "in", "port": port, "action": action, "peers": (source,)}
    return build(Partition, target=at, at=0.0, duration=0.0, keys=keys)


def _controller_cut(controller: int) -> Partition:
    """Requests between controllers no longer arrive at or from this one."""
    return Partition(target=Target.parse(f"controller:{controller - CONTROLLER_IDS}"), port="control")


def _listed(nodes: Sequence[Node]) -> str:
    names = [node.name for node in nodes]
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"
