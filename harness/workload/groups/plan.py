"""The load's own actions on a group's members, and their times: evenly over the load, and on each member in turn."""

from dataclasses import dataclass
from enum import StrEnum

from kafka_chaos.contract.lane.groups import Group


class Action(StrEnum):
    """An action of the load on a member."""

    CRASH = "crash"
    FREEZE = "freeze"
    JOIN = "join"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, order=True)
class Planned:
    """An action, `at` so many seconds after the load began, at the member in this `place`; a join makes the place."""

    at: float
    action: Action
    place: int


def planned(group: Group, duration: float) -> list[Planned]:
    """The actions of a load of `duration` seconds, in the order of their times.

    Joins come early and leaves late, since only members that are there can leave: those that joined do so first.
    """
    counts = {Action.CRASH: group.crashes, Action.FREEZE: group.freezes}
    found = [
        Planned((turn + 1) * duration / (count + 1), action, (turn + shift) % group.members)
        for shift, (action, count) in enumerate(counts.items())
        for turn in range(count)
    ]
    joins = range(group.joins)
    found += [
        Planned((turn + 1) * duration / 2 / (group.joins + 1), Action.JOIN, group.members + turn) for turn in joins
    ]
    places = [*(group.members + turn for turn in reversed(joins)), *reversed(range(group.members))]
    for turn in range(group.leaves):
        at = duration / 2 + (turn + 1) * duration / 2 / (group.leaves + 1)
        found.append(Planned(at, Action.LEAVE, places[turn]))
    return sorted(found)
