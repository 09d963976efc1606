"""The steps of scenarios: what is done to brokers and by producers, each the same on Kafka and in the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.faults.partition import Partition
from kafka_chaos.faults.target import Target
from kafka_chaos.harness.scenario import isolation
from kafka_chaos.harness.scenario.lockstep import LockStep
from kafka_chaos.harness.waiting import wait_until
from kafka_chaos.reference_model.cluster_model import Step, step
from kafka_chaos.reference_model.cluster_state import CLIENT, CLIENTS, CONTROL, FOLLOWER, REPLICATION


@dataclass
class Stage(LockStep):
    """The running act, as a scenario is given it: its steps by name, and all of `LockStep`."""

    _cuts: dict[tuple[str, int, int], Partition] = field(default_factory=dict)

    def produce(
        self,
        record: str,
        *,
        acks: str = "all",
        producer: str = "p",
        idempotent: bool = False,
        key: str | None = None,
        tombstone: bool = False,
        configs: Mapping[str, object] | None = None,
        then: Sequence[Step] = (),
    ) -> None:
        """A producer sends a record and goes on trying until it is answered; `then`: what follows from that."""
        chosen: dict[str, Any] = {
            "producer": producer,
            "acks": acks,
            "idempotent": idempotent,
            "key": key,
            "tombstone": tombstone,
        }
        how = f"with acks={acks}{' by an idempotent producer' if idempotent else ''}{f', key {key}' if key else ''}"
        self._take(
            f"{record} is sent {how}.",
            lambda: self.clients.send(record, **chosen, configs=configs),
            step("produce", record=record, **chosen),
            *then,
        )

    def kill(self, *brokers: int) -> None:
        """SIGKILL, one after the other; settled when the controller has drawn its conclusions."""
        for broker in brokers:
            self._take(f"{self.name(broker)} is killed (SIGKILL).", self.node(broker).kill, step("kill", broker=broker))

    def stop(self, broker: int) -> None:
        """SIGTERM: a controlled shutdown."""
        self._take(f"{self.name(broker)} is shut down (SIGTERM).", self.node(broker).stop, step("stop", broker=broker))

    def start(self, broker: int) -> None:
        """Start a broker again."""

        def start() -> None:
            self.tenancy.cluster.start_again([self.node(broker)])

        # Packet filter rules go with the container's network: a cut at this broker ends with its restart.
        lifted = [cut for cut in self._cuts if cut[2] == broker]
        heals = [step("heal", channel=channel, source=source, target=broker) for channel, source, _ in lifted]
        for cut in lifted:
            del self._cuts[cut]
        self._take(f"{self.name(broker)} is started again.", start, step("start", broker=broker), *heals)

    def pause(self, broker: int) -> None:
        """Freeze a broker until its ZooKeeper session has ended."""
        self._take(
            f"{self.name(broker)} is frozen until its ZooKeeper session has ended.",
            self.node(broker).pause,
            step("pause", broker=broker),
            step("expire_session", broker=broker),
        )

    def thaw(self, broker: int) -> None:
        """Thaw a frozen broker."""
        self._take(f"{self.name(broker)} thaws.", self.node(broker).unpause, step("thaw", broker=broker))

    def cut(self, source: int, target: int, *, channel: str = "replication", action: str = "reject") -> None:
        """Requests from one broker to another no longer arrive: replication (follower → leader) or control."""
        fault = Partition(
            target=Target(f"broker:{target}", "broker", number=target),
            direction="in",
            port=channel,
            action=action,
            peers=(source,),
        )
        expected = channel == "replication" and self._follows(source, target)
        node = self.node(target)

        def cut() -> None:
            fault.inject(self.tenancy.view, (node,))
            if expected:
                # Only when its connection is broken off does a follower no longer get what it has asked for.
                wait_until(
                    lambda: fault.proof(self.tenancy.view, (node,)).bit,
                    f"{self.name(source)}'s connection to {self.name(target)} to be broken off",
                    timeout=40,
                )

        self._cuts[channel, source, target] = fault
        what = "fetches" if channel == "replication" else "control requests"
        self._take(
            f"{self.name(source)}'s {what} no longer reach {self.name(target)}.",
            cut,
            step("cut", channel=channel, source=source, target=target),
        )

    def hold_next_fetch(self, source: int, target: int) -> None:
        """The leader's answer to the fetch that waits there still arrives; the follower's next fetch does not."""
        fault = _held(source, target)
        self._cuts["held", source, target] = fault
        self._take(
            f"{self.name(source)}'s next fetch will be held on its way to {self.name(target)}.",
            lambda: fault.inject(self.tenancy.view, (self.node(target),)),
            step("cut", channel="held", source=source, target=target),
        )

    def heal(self, source: int, target: int, *, channel: str = "replication") -> None:
        """Lift a cut."""
        fault = self._cuts.pop((channel, source, target))
        node = self.node(target)
        self._take(
            f"{self.name(source)} reaches {self.name(target)} again.",
            lambda: fault.heal(self.tenancy.view, (node,)),
            step("heal", channel=channel, source=source, target=target),
        )

    def isolate(self, broker: int) -> None:
        """Cut a broker off from all others and from ZooKeeper, until its session has ended; clients still reach it.

        Who sends meanwhile should not ask it for the leader: see `reachable`.
        """
        others = [node for node in self.tenancy.cluster.nodes if node is not self.node(broker)]
        self._take(
            f"{self.name(broker)} is cut off from the other brokers and from ZooKeeper.",
            lambda: isolation.isolate(self.node(broker), others),
            *(
                step("cut", channel=channel, source=source, target=target)
                for channel, source, target in self._around(broker)
            ),
            step("expire_session", broker=broker, returns=False),
        )

    def rejoin(self, broker: int) -> None:
        """End a broker's isolation."""
        self._take(
            f"{self.name(broker)} reaches the others and ZooKeeper again.",
            lambda: isolation.rejoin(self.node(broker)),
            *(
                step("heal", channel=channel, source=source, target=target)
                for channel, source, target in self._around(broker)
            ),
            step("register", broker=broker),
        )

    def reachable(self, *brokers: int) -> dict[str, object]:
        """Client settings by which only these brokers are asked for the leader."""
        addresses = [self.tenancy.cluster.client_address(broker) for broker in brokers]
        return {"bootstrap.servers": ",".join(addresses)}

    def _around(self, broker: int) -> list[tuple[str, int, int]]:
        others = [other for other in self.act.replicas if other != broker]
        return [
            *((REPLICATION, other, broker) for other in others),
            *((REPLICATION, broker, other) for other in others),
            *((CONTROL, other, broker) for other in others),
            (CLIENTS, CLIENT, broker),
        ]

    def _follows(self, source: int, target: int) -> bool:
        replicas = [state.replica(source) for state in self.model.states]
        return all(replica.runs and replica.role == FOLLOWER and replica.leader == target for replica in replicas)


def _held(source: int, target: int) -> Partition:
    """Packets from the follower vanish, those to it arrive."""
    return Partition(
        target=Target(f"broker:{target}", "broker", number=target),
        direction="in",
        port="replication",
        action="drop",
        peers=(source,),
    )
