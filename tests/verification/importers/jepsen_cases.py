"""The histories of Jepsen's own tests of its kafka workload (`jepsen.tests.kafka-test`), retold, with what they find.

Each case says which errors Jepsen's test asserts (0: that there are none of this kind), and what is found here. Keys,
values and times are our own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.lane.transactions import TransactionAnomaly

COUNTERPARTS = {
    "duplicate": Anomaly.DUPLICATE,
    "G1a": TransactionAnomaly.ABORTED_READ,
    "inconsistent-offsets": Anomaly.INCONSISTENT_OFFSET,
    "int-nonmonotonic-poll": Anomaly.NONMONOTONIC_POLL,
    "int-nonmonotonic-send": Anomaly.REORDERED,
    "int-poll-skip": Anomaly.SKIPPED_POLL,
    "lost-write": Anomaly.LOST_WRITE,
    "nonmonotonic-poll": Anomaly.NONMONOTONIC_POLL,
    "nonmonotonic-send": Anomaly.REORDERED,
    "poll-skip": Anomaly.SKIPPED_POLL,
}
"""By Jepsen's error, the anomaly that says the same."""
WITHOUT = ("G0", "G1c", "int-send-skip", "precommitted-read")
"""Errors without an anomaly; docs/importers.md gives the reasons."""


@dataclass(frozen=True)
class Case:
    """`jepsen`: by error, how many its test asserts. `found`: by anomaly, how many are found here.

    `differs`: the errors about which the two disagree on purpose.
    """

    operations: list[dict[str, Any]]
    jepsen: dict[str, int]
    found: dict[str, int] = field(default_factory=dict)
    differs: tuple[str, ...] = ()


def op(process: int, kind: str, f: str, invoked: list[Any], completed: list[Any] | None = None) -> list[dict[str, Any]]:
    """An operation, invoked and completed; `kind`: how."""
    begun = {"type": "invoke", "process": process, "f": f, "value": invoked}
    return [begun, {**begun, "type": kind, "value": invoked if completed is None else completed}]


def send(process: int, kind: str, *records: tuple[str, int, int | None]) -> list[dict[str, Any]]:
    """Sends of (key, value, offset); without an offset, the answer names none."""
    invoked = [["send", key, value] for key, value, _ in records]
    answers: list[Any] = [["send", key, value if offset is None else [offset, value]] for key, value, offset in records]
    return op(process, kind, "send", invoked, answers)


def poll(
    process: int, *polls: dict[str, list[tuple[int, int]]], kind: str = "ok", f: str = "poll"
) -> list[dict[str, Any]]:
    """Polls of {key: [(offset, value), …]}."""
    answers = [["poll", {key: [list(pair) for pair in pairs] for key, pairs in polled.items()}] for polled in polls]
    return op(process, kind, f, [["poll"] for _ in polls], answers)


def move(process: int, f: str, *keys: str, kind: str = "ok") -> list[dict[str, Any]]:
    return op(process, kind, f, list(keys))


def numbered(key: str, first: int, last: int) -> list[tuple[str, int, int | None]]:
    """Records of a key whose values are their offsets."""
    return [(key, offset, offset) for offset in range(first, last + 1)]


def at(*offsets: int) -> list[tuple[int, int]]:
    return [(offset, offset) for offset in offsets]


def history(*operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations one after the other, with times."""
    flat = [one for group in operations for one in group]
    return [{**one, "time": time} for time, one in enumerate(flat, 1)]


def interleaved(*operations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operations at the same time: all are invoked before one completes."""
    return history([invoked for invoked, _ in operations], [completed for _, completed in operations])


CLAIM = (send(0, "info", ("x", 1, 0), ("y", 1, None)), send(1, "ok", ("x", 2, 0)))
IN_DOUBT = (send(0, "info", ("x", 1, None), ("y", 2, 0)), send(1, "info", ("y", 3, None)))
LATE = send(3, "info", *((key, value, None) for key, value, _ in (numbered("x", 1, 4) + numbered("x", 7, 7))))


def skipping(*moves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Process 0 reads 1, 2, then 4, then 7; 3 was read by another one, and 6 is acknowledged."""
    first, second = (*moves, [], [])[:2]
    return history(
        poll(0, {"x": at(1, 2)}),
        poll(1, {"x": at(3)}),
        first,
        poll(0, {"x": at(4)}),
        second,
        send(2, "ok", ("x", 6, 6)),
        poll(0, {"x": at(7)}),
        LATE,
    )


def rewinding(*moves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Process 0 reads 1 to 3, then 2 to 4."""
    sent = send(0, "ok", *((key, value, None) for key, value, _ in numbered("x", 1, 4)))
    return history(sent, poll(0, {"x": at(1, 2, 3)}), *moves, poll(0, {"x": at(2, 3, 4)}))


def descending(*moves: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Process 0 sends to offsets 3 and 4, then to 1 and 2."""
    return history(send(0, "ok", *numbered("x", 3, 4)), *moves, send(0, "ok", *numbered("x", 1, 2)))


def aborting(last: int, *polls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records up to offset `last`; process 1 reads the first one in a transaction that commits."""
    return history(send(0, "ok", *numbered("x", 0, last)), poll(1, {"x": at(0)}, f="txn"), *polls)


CASES = {
    "a claim in doubt": Case(history(*CLAIM), {"inconsistent-offsets": 0}, {"unseen": 1}),
    "a claim that a read proves": Case(
        history(*CLAIM, poll(2, {"y": [(5, 1)]})), {"inconsistent-offsets": 1}, {"inconsistent_offset": 1, "unseen": 2}
    ),
    "orders that contradict each other": Case(
        history(
            send(3, "info", ("x", 10, None)),
            poll(1, {"x": [(0, 10), (1, 11)]}),
            send(2, "info", ("x", 12, 1), ("x", 11, 3), ("x", 13, 4)),
        ),
        {"inconsistent-offsets": 1},
        {"inconsistent_offset": 1, "duplicate": 1, "lost_write": 1, "unseen": 1},
    ),
    "two acknowledgements of one offset": Case(
        history(send(379, "ok", ("k", 641, 537)), send(363, "ok", ("k", 645, 537))),
        {"inconsistent-offsets": 1},
        {"inconsistent_offset": 1, "unseen": 2},
    ),
    "a failed write is read": Case(
        history(send(0, "fail", ("x", 2, None), ("y", 3, None)), poll(1, {"x": [(0, 2)]})),
        {"G1a": 1},
        {"aborted_read": 1},
    ),
    "acknowledged below what was read": Case(
        history(
            send(0, "ok", ("x", 10, 0)),
            send(0, "ok", ("x", 11, 1), ("x", 13, 3)),
            send(1, "info", ("x", 12, None)),
            poll(0, {"x": [(2, 12)]}),
        ),
        {"lost-write": 2},
        {"lost_write": 2, "unseen": 1},
    ),
    "overwritten": Case(
        history(
            send(0, "ok", ("x", 10, 0)), send(0, "ok", ("x", 11, 0), ("x", 12, 2)), poll(0, {"x": [(0, 11), (2, 12)]})
        ),
        {"lost-write": 1},
        {"lost_write": 1, "inconsistent_offset": 1},
    ),
    "in doubt and not read": Case(history(*IN_DOUBT, poll(3, {"y": [(1, 3)]})), {"lost-write": 0}),
    "in doubt and read in part": Case(
        history(*IN_DOUBT, poll(2, {"x": [(0, 1)]}), poll(3, {"y": [(1, 3)]})), {"lost-write": 1}, {"lost_write": 1}
    ),
    "skips": Case(skipping(), {"poll-skip": 2}, {"skipped_poll": 2, "lost_write": 1}),
    "skips after other keys were assigned": Case(
        skipping(move(0, "subscribe", "y"), move(0, "assign", "y", kind="info")), {"poll-skip": 0}, {"lost_write": 1}
    ),
    "skips although the key stays assigned": Case(
        skipping(move(0, "assign", "x", "y"), move(0, "assign", "x", "y")),
        {"poll-skip": 2},
        {"skipped_poll": 2, "lost_write": 1},
    ),
    "skips although the key stays subscribed": Case(
        skipping(move(0, "subscribe", "x", "y"), move(0, "subscribe", "x", "y")),
        {"poll-skip": 2},
        {"lost_write": 1},
        differs=("poll-skip",),
    ),
    "read again after an abort": Case(
        aborting(2, *(poll(1, {"x": at(1, 2)}, kind=kind, f="txn") for kind in ("fail", "info", "ok"))),
        dict.fromkeys(COUNTERPARTS, 0),
    ),
    "not read again after an abort": Case(
        aborting(
            5,
            poll(1, {"x": at(1, 2)}, kind="fail", f="txn"),
            poll(1, {"x": at(3, 4)}, kind="fail", f="txn"),
            poll(1, {"x": at(5)}, f="txn"),
        ),
        {"poll-skip": 2},
        {"skipped_poll": 4},
    ),
    "in doubt and not read again after an abort": Case(
        aborting(5, poll(1, {"x": at(1, 2)}, kind="fail", f="txn"), poll(1, {"x": at(3, 4)}, kind="info", f="txn")),
        {"poll-skip": 1},
        {"skipped_poll": 2, "unseen": 1},
    ),
    "reads backwards": Case(rewinding(), {"nonmonotonic-poll": 1}, {"nonmonotonic_poll": 1}),
    "reads backwards after another subscription": Case(rewinding(move(0, "subscribe", "y")), {"nonmonotonic-poll": 0}),
    "reads backwards after another assignment": Case(rewinding(move(0, "assign", "y")), {"nonmonotonic-poll": 0}),
    "reads backwards although the key stays assigned": Case(
        rewinding(move(0, "assign", "x", "y")), {"nonmonotonic-poll": 1}, {"nonmonotonic_poll": 1}
    ),
    "reads backwards although the key stays subscribed": Case(
        rewinding(move(0, "subscribe", "x", "y")), {"nonmonotonic-poll": 1}, differs=("nonmonotonic-poll",)
    ),
    "sends backwards": Case(descending(), {"nonmonotonic-send": 1}, {"reordered": 1, "unseen": 4}),
    "sends backwards although the key stays assigned": Case(
        descending(move(0, "assign", "x", "y")), {"nonmonotonic-send": 1}, {"reordered": 1, "unseen": 4}
    ),
    "sends backwards after another assignment": Case(
        descending(move(0, "assign", "y", kind="info")),
        {"nonmonotonic-send": 0},
        {"reordered": 1, "unseen": 4},
        differs=("nonmonotonic-send",),
    ),
    "skips within an operation": Case(
        history(
            send(1, "info", ("x", 1, None), ("x", 2, None), ("x", 4, None)),
            poll(0, {"x": at(1, 4)}),
            poll(0, {"x": at(1)}, {"x": at(4)}),
            poll(0, {"x": at(2)}),
        ),
        {"int-poll-skip": 2},
        {"nonmonotonic_poll": 2},
        differs=("int-poll-skip",),
    ),
    "skips within an operation what another process reads": Case(
        history(
            send(1, "info", ("x", 1, None), ("x", 2, None), ("x", 4, None)),
            poll(0, {"x": at(1)}, {"x": at(4)}),
            poll(2, {"x": at(2)}),
        ),
        {"int-poll-skip": 1},
        {"skipped_poll": 1},
    ),
    "another's record within a transaction": Case(
        history(send(0, "ok", ("x", 1, 1), ("x", 3, None)), send(1, "info", ("x", 2, None)), poll(2, {"x": at(2, 3)})),
        {"int-send-skip": 1},
        {"lost_write": 1},
    ),
    "reads backwards within an operation": Case(
        history(
            send(0, "info", ("x", 1, None), ("x", 2, None), ("x", 3, None)),
            poll(0, {"x": at(3, 1)}),
            poll(0, {"x": at(2, 3)}, {"x": at(3)}),
        ),
        {"int-nonmonotonic-poll": 2},
        {"nonmonotonic_poll": 2},
    ),
    "sends backwards within an operation": Case(
        history(
            send(0, "ok", ("x", 3, 3), ("x", 1, 1)),
            send(0, "info", ("y", 4, None), ("y", 2, None)),
            send(1, "info", ("y", 3, None)),
            poll(0, {"y": at(2, 3, 4)}),
        ),
        {"int-nonmonotonic-send": 2},
        {"reordered": 2, "unseen": 2},
    ),
    "acknowledged and read at different offsets": Case(
        history(send(0, "ok", ("x", 1, 1)), send(1, "info", ("x", 2, None)), poll(2, {"x": [(2, 2), (3, 1)]})),
        {"duplicate": 1},
        {"duplicate": 1},
    ),
    "ten values at the same two offsets": Case(
        history(
            *(part for value in range(10) for part in (send(0, "ok", ("x", value, 0)), poll(1, {"x": [(1, value)]})))
        ),
        {"duplicate": 10, "inconsistent-offsets": 2},
        {"duplicate": 10, "inconsistent_offset": 2, "nonmonotonic_poll": 9},
    ),
    "a failed poll shows a duplicate": Case(
        history(
            send(0, "ok", ("x", 0, 1)), send(0, "fail", ("x", 1, 2)), poll(1, {"x": [(11, 0), (12, 1)]}, kind="fail")
        ),
        {"duplicate": 1},
        {"duplicate": 1, "aborted_read": 1},
    ),
    "read one by one": Case(
        history(
            poll(0, {}), send(0, "ok", ("x", 10, 0), ("x", 11, 1)), poll(0, {"x": [(0, 10)]}), poll(0, {"x": [(1, 11)]})
        ),
        {"unseen": 0},
    ),
    "G0": Case(
        interleaved(send(0, "ok", ("x", 1, 0), ("y", 1, 1)), send(1, "ok", ("x", 2, 1), ("y", 2, 0))),
        {"G0": 1},
        {"unseen": 4},
    ),
    "G1c by reads": Case(
        interleaved(
            op(0, "ok", "txn", [["send", "x", 1], ["poll"]], [["send", "x", [0, 1]], ["poll", {"y": [[0, 2]]}]]),
            op(1, "ok", "txn", [["send", "y", 2], ["poll"]], [["send", "y", [0, 2]], ["poll", {"x": [[0, 1]]}]]),
        ),
        {"G1c": 1},
    ),
    "G1c by a read and a write": Case(
        interleaved(
            op(0, "ok", "txn", [["send", "x", 1], ["send", "y", 3]], [["send", "x", [0, 1]], ["send", "y", [2, 3]]]),
            op(1, "ok", "txn", [["poll"], ["send", "y", 2]], [["poll", {"x": [[0, 1]]}], ["send", "y", [1, 2]]]),
        ),
        {"G1c": 1},
        {"unseen": 2},
    ),
    "a transaction reads what it wrote": Case(
        history(op(0, "ok", "txn", [["send", "x", 1], ["poll"]], [["send", "x", [0, 1]], ["poll", {"x": [[0, 1]]}]])),
        {"precommitted-read": 1},
    ),
}
