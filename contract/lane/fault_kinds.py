"""The kinds of faults that a lane may go through, as `faults` in lanes.json names them.

These are the kinds that the model distinguishes. Each fault kind of an experiment counts as one of them
(`Fault.model_faults`), or as none.
"""

from collections.abc import Iterable, Mapping

REPEAT = "repeat"  # a request or a response is sent once more
FAULT_KINDS = ("kill", "stop", "pause", "partition", "power-loss", "session-expiry", REPEAT)

LINK_FAULTS = ("hold", "delay", "rate", "drop", "cut", "answer", REPEAT, "alter", "stale", "connection-reset")
"""The kinds that act on single requests and responses, and `connection-reset`. Their proof names only those targets
whose requests, responses or connections were hit."""
COUNTS_AS: Mapping[str, str | None] = {
    **dict.fromkeys((*LINK_FAULTS, "isolate", "packet-loss"), "partition"),
    **{kind: kind for kind in FAULT_KINDS},  # overrides `repeat`, which is in LINK_FAULTS, too
    **dict.fromkeys(("lost-checkpoint", "lost-index", "failing-segment", "full-disk"), "kill"),
    **dict.fromkeys(("slow-disk", "freeze-disk"), "pause"),
    **dict.fromkeys(("corrupted-segment", "truncated-segment", "read-only-disk"), "power-loss"),
    **dict.fromkeys(("leader-transfer", "reassignment"), "session-expiry"),
    **dict.fromkeys(("clock-step", "clock-drift", "controller-move", "partition-growth")),
    **dict.fromkeys(("client-kill", "client-pause")),
}
"""For each fault kind, the kind in `FAULT_KINDS` that it counts as, once per broker hit; None: it counts as none."""
LOCKSTEP = "lockstep"
"""In events.jsonl, a phase in steps is itself reported as a fault of this kind, and never as healed."""
STEPS_COUNT_AS: Mapping[str, str] = {"cut-replication": "partition", "kill-leader": "kill", "pause-leader": "pause"}
"""For each step of a lock-step phase that is a fault, the kind in `FAULT_KINDS` that it counts as. Other steps end what
an earlier step began, or follow from it: `expire-session` waits until the session of a paused leader ends."""


def faults_of_steps(steps: Iterable[str]) -> tuple[str, ...]:
    """The model's faults that the steps of a lock-step phase amount to."""
    return tuple(STEPS_COUNT_AS[step] for step in steps if step in STEPS_COUNT_AS)
