"""Elections as the brokers' own logs record them, and what the events show where leader epochs skip a number.

Guarantee: an explanation names events only; where none explains a skipped epoch, it says so.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from kafka_chaos.contract.events import LeaderElected
from kafka_chaos.harness.report.pages import join
from kafka_chaos.harness.report.svg import clock
from kafka_chaos.harness.report.timeline.events import Change, TimelineEvents

CLIENTS_LAG_NS = 2_000_000_000
"""How much later than the brokers clients may see a change."""


def states(elections: Sequence[LeaderElected]) -> list[Change]:
    """The elections of a partition as states in order of time: who leads, in which epoch."""
    ordered = sorted(elections, key=_order)
    skipped = {after: before for before, after in _skipping(ordered)}
    return [
        Change(
            won.ts_ns,
            f"epoch {won.leader_epoch}"
            + (f" (after {skipped[won].leader_epoch})" if won in skipped else "")
            + f" · broker {won.broker}",
            str(won.leader_epoch),
        )
        for won in ordered
    ]


def explain_skipped_epochs(
    lane: str, timeline_events: TimelineEvents, start_ns: int, end_ns: int, most: int
) -> list[str]:
    """A sentence for each election of a lane between two times whose epoch is not the one after its predecessor's."""
    sentences = []
    for (name, partition), elections in sorted(timeline_events.elections.items()):
        for before, after in _skipping(sorted(elections, key=_order)):
            if name == lane and start_ns <= after.ts_ns <= end_ns:
                sentences.append(_explain(before, after, (name, partition), timeline_events, start_ns))
    return sentences[:most]


def _order(election: LeaderElected) -> tuple[int, int]:
    return election.ts_ns, election.leader_epoch


def _skipping(ordered: Sequence[LeaderElected]) -> list[tuple[LeaderElected, LeaderElected]]:
    return [(before, after) for before, after in pairwise(ordered) if after.leader_epoch > before.leader_epoch + 1]


def _explain(
    before: LeaderElected, after: LeaderElected, place: tuple[str, int], timeline_events: TimelineEvents, start_ns: int
) -> str:
    def at(ts_ns: int) -> str:
        return clock((ts_ns - start_ns) / 1e9)

    epochs = [str(epoch) for epoch in range(before.leader_epoch + 1, after.leader_epoch)]
    named = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
    seen = _seen(before, after, place, timeline_events, at)
    return (
        f"Partition {place[1]} goes from leader epoch {before.leader_epoch} to {after.leader_epoch} at "
        f"{at(after.ts_ns)}: no broker logs that it became leader in {named}. "
        + (f"In between, {join(seen)}." if seen else "The events do not show why.")
    )


def _seen(
    before: LeaderElected,
    after: LeaderElected,
    place: tuple[str, int],
    timeline_events: TimelineEvents,
    at: Callable[[int], str],
) -> list[str]:
    """The events between two elections that can have raised the epoch."""

    def between(change: Change) -> bool:
        return before.ts_ns < change.ts_ns <= after.ts_ns + CLIENTS_LAG_NS

    leaderless = [change for change in timeline_events.leaders.get(place, ()) if change.value == "nobody"]
    seen = [f"clients saw no leader from {at(change.ts_ns)} on" for change in leaderless if between(change)]
    controllers = timeline_events.controllers
    seen += [
        f"the controller changed from {_named(old)} to {_named(new)}, as clients saw at {at(new.ts_ns)}"
        for old, new in pairwise(controllers)
        if between(new) and old.value != new.value
    ]
    return seen


def _named(controller: Change) -> str:
    return "nobody" if controller.value == "nobody" else f"broker {controller.value}"
