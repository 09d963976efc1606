"""The targets of faults. A target is a role, such as `leader(lane)`; the injection finds out which nodes have it.

`leader(lane)` leads partition 0, `leader(lane/3)` partition 3; `follower(…)` is one of its followers.
`group-coordinator(lane)` coordinates the lane's consumer group, share group, or group of loops (which consume,
transform and produce). `transaction-coordinator(lane)` coordinates the lane's first transactional id, and
`share-coordinator(lane)` keeps the state of its share group. `all`, `minority`, `majority` and `random` mean brokers.
`controllers`, `controllers:…` and `controller:1` mean KRaft's dedicated controllers; `controller` is the active one,
broker or not. `member(lane)` is a member of the lane's group, loop or share group, `members(lane)` all of them.
`producer(lane)`, `consumer(lane)` and their plurals mean the lane's clients if these run as processes of their own.
"""

import random as random_numbers
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Self, TypeVar

from kafka_chaos.contract.command.errors import ExitCode, UsageFailure
from kafka_chaos.faults.cluster import ClusterControl, NodeControl

T = TypeVar("T")
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = "group-coordinator", "transaction-coordinator"
SHARE_COORDINATOR = "share-coordinator"
MEMBER, PRODUCER, CONSUMER = "member", "producer", "consumer"
CLIENT_ROLES = tuple(f"{role}{plural}" for role in (MEMBER, PRODUCER, CONSUMER) for plural in ("", "s"))
"""The roles that clients have; servers have all others."""
_SYNTAX = re.compile(
    r"(?P<lane_role>leader|follower)\((?P<lane>[^()/]+)(?:/(?P<partition>\d+))?\)"
    r"|(?P<coordinator>(?:group|transaction|share)-coordinator)\((?P<coordinated_lane>[^()/]+)\)"
    r"|(?P<clients>(?:member|producer|consumer)s?)\((?P<clients_lane>[^()/]+)\)"
    r"|(?P<numbered>broker|zookeeper|controller):(?P<number>\d+)"
    r"|(?P<servers>brokers|controllers):(?P<numbers>\d+(?:,\d+)+)"
    r"|controllers:(?P<part>minority|majority)"
    r"|(?P<role>controllers|controller|zookeeper|random|all|minority|majority)"
)

EXPECTED = (
    "leader(LANE), leader(LANE/PARTITION), follower(LANE), group-coordinator(LANE), transaction-coordinator(LANE), "
    "share-coordinator(LANE), controller, broker:ID, brokers:ID,ID…, zookeeper, zookeeper:NUMBER, controllers, "
    "controllers:minority, controllers:majority, controller:NUMBER, controllers:NUMBER,NUMBER…, random, all, minority, "
    "majority, member(LANE), members(LANE), producer(LANE), producers(LANE), consumer(LANE) or consumers(LANE)"
)


class TargetError(UsageFailure, ValueError):
    """Raised for a text that is not a target, or a target that the cluster or the experiment does not have."""


class VacantRoleError(TargetError):
    """Raised when no node has the target's role at the moment of injection."""

    exit_code = ExitCode.ENVIRONMENT


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed target; `text` is the target as the experiment states it."""

    text: str
    role: str
    lane: str | None = None
    partition: int = 0
    numbers: tuple[int, ...] = ()
    """The numbers of the servers that the target names; empty if it names servers by their role alone."""
    part: str | None = None
    """`minority` or `majority` of the dedicated controllers; None: all of them, or those that `numbers` names."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a target; raises `TargetError`, which says what is expected."""
        match = _SYNTAX.fullmatch(text.strip())
        if match is None:
            raise TargetError(f"{text!r} is not a target: expected {EXPECTED}")
        if match["lane_role"]:
            return cls(text, match["lane_role"], match["lane"], int(match["partition"] or 0))
        if match["coordinator"]:
            return cls(text, match["coordinator"], match["coordinated_lane"])
        if match["clients"]:
            return cls(text, match["clients"], match["clients_lane"])
        if match["numbered"]:
            role = "controllers" if match["numbered"] == "controller" else match["numbered"]
            return cls(text, role, numbers=(int(match["number"]),))
        if match["servers"]:
            numbers = tuple(int(number) for number in match["numbers"].split(","))
            if len(set(numbers)) < len(numbers):
                raise TargetError(f"{text!r} names a {match['servers'].removesuffix('s')} twice")
            return cls(text, match["servers"], numbers=numbers)
        if match["part"]:
            return cls(text, "controllers", part=match["part"])
        return cls(text, match["role"])

    def check(self, *, brokers: int, zookeepers: int, lanes: Collection[str], controllers: int = 0) -> None:
        """Raise `TargetError` if a cluster of this size with these lanes has no such target.

        `controllers` is the number of dedicated controllers.
        """
        if self.role == "zookeeper" and not zookeepers:
            targets = "brokers and controllers"
            raise TargetError(f"{self.text}: a cluster in KRaft mode has no ZooKeeper; its targets are {targets}")
        if self.role == "controllers" and not controllers:
            raise TargetError(
                f"{self.text}: the cluster has no dedicated controllers; with metadata_mode: kraft and controllers: 1 "
                "or 3, it has some. `controller` is the active one"
            )
        if self.part is not None and not self.controllers_hit(controllers):
            raise TargetError(f"{self.text}: one controller alone has no minority")
        if self.role == "minority" and not self.brokers_hit(brokers):
            raise TargetError(f"{self.text}: one or two brokers have no minority")
        if self.lane is not None and self.lane not in lanes:
            raise TargetError(f"{self.text}: there is no lane {self.lane}; the lanes are {', '.join(sorted(lanes))}")
        counts = {"brokers": brokers, "zookeepers": zookeepers, "controllers": controllers}
        kind = f"{self.role.removesuffix('s')}s"
        for number in self.numbers:
            if not 1 <= number <= counts[kind]:
                raise TargetError(f"{self.text}: the cluster's {kind} are numbered 1 to {counts[kind]}")

    def resolve(self, cluster: ClusterControl, seed: int) -> tuple[NodeControl, ...]:
        """The nodes that have this role now; raises `TargetError` if there are none. `seed` chooses between nodes."""
        rng = random_numbers.Random(seed)
        brokers = list(cluster.brokers.values())
        if self.role in ("zookeeper", "controllers"):
            servers = cluster.zookeepers if self.role == "zookeeper" else cluster.controllers
            numbers = list(self.numbers or servers)
            if self.part is not None:
                numbers = sorted(rng.sample(numbers, self.controllers_hit(len(numbers))))
            return tuple(servers[number] for number in numbers)
        if self.role in ("broker", "brokers"):
            return tuple(cluster.brokers[number] for number in self.numbers)
        if self.role == "controller":
            active = self._required(cluster.controller())
            return tuple(node for node in (*brokers, *cluster.controllers.values()) if node.number == active)
        if self.role in ("leader", "follower"):
            return (cluster.brokers[self._leader_or_follower(cluster, rng)],)
        if self.role in (GROUP_COORDINATOR, TRANSACTION_COORDINATOR, SHARE_COORDINATOR):
            assert self.lane is not None
            coordinators = {
                GROUP_COORDINATOR: cluster.group_coordinator,
                TRANSACTION_COORDINATOR: cluster.transaction_coordinator,
                SHARE_COORDINATOR: cluster.share_coordinator,
            }
            return (cluster.brokers[self._required(coordinators[self.role](self.lane))],)
        if self.role in CLIENT_ROLES:
            assert self.lane is not None
            role = self.role.removesuffix("s")
            clients = list(cluster.clients(self.lane, role))
            if not clients:
                raise VacantRoleError(f"{self.text}: no {role} runs as a process of its own at the moment")
            return tuple(clients) if self.role != role else (rng.choice(clients),)
        if self.role == "random":
            return (rng.choice(brokers),)
        count = self.brokers_hit(len(brokers))  # of the roles that are left: `all`, `minority` and `majority`
        return tuple(sorted(rng.sample(brokers, count), key=lambda node: node.number))

    def brokers_hit(self, brokers: int) -> int:
        """How many brokers of a cluster have this role at once; `controller` counts as one of the brokers."""
        if self.role in ("zookeeper", "controllers", *CLIENT_ROLES):
            return 0
        if self.role == "brokers":
            return len(self.numbers)
        return {"all": brokers, **_part_sizes(brokers)}.get(self.role, 1)

    def controllers_hit(self, controllers: int) -> int:
        """How many of a cluster's dedicated controllers (not brokers) have this role at once."""
        if self.role not in ("controller", "controllers"):
            return 0
        if self.role == "controller":
            return min(1, controllers)
        if self.numbers:
            return len(self.numbers) if controllers else 0
        return controllers if self.part is None else _part_sizes(controllers)[self.part]

    def _leader_or_follower(self, cluster: ClusterControl, rng: random_numbers.Random) -> int:
        assert self.lane is not None
        leader = self._required(cluster.leader(self.lane, self.partition))
        if self.role == "leader":
            return leader
        replicas = self._required(cluster.replicas(self.lane, self.partition) or None)
        followers = [broker for broker in replicas if broker != leader]
        if not followers:
            raise TargetError(f"{self.text}: the partition has no followers")
        return rng.choice(followers)

    def _required(self, holder: T | None) -> T:
        """The holder of the role; raises `VacantRoleError` if there is none."""
        if holder is None:
            raise VacantRoleError(f"{self.text}: nobody holds this role at the moment")
        return holder


def _part_sizes(nodes: int) -> dict[str, int]:
    """The sizes of the largest `minority` of a number of nodes, and of the `majority` that the others form."""
    minority = (nodes - 1) // 2
    return {"minority": minority, "majority": nodes - minority}
