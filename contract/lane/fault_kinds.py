"""The kinds of faults that a lane may go through, as `faults` in lanes.json names them.

These are the kinds that the model distinguishes. Each fault kind of an experiment counts as one of them
(`Fault.model_faults`), or as none.
"""

from collections.abc import Mapping

REPEAT = "repeat"  # a request or a response is sent once more
FAULT_KINDS = ("kill", "stop", "pause", "partition", "power-loss", "session-expiry", REPEAT)

ON_LINKS = ("hold", "delay", "rate", "drop", "cut", "answer", REPEAT, "alter", "stale", "connection-reset")
"""The kinds that act on single requests and responses, and `connection-reset`. Their proof names only those targets
whose requests, responses or connections were hit."""
COUNTS_AS: Mapping[str, str | None] = {
    **dict.fromkeys((*ON_LINKS, "isolate", "packet-loss"), "partition"),
    **{kind: kind for kind in FAULT_KINDS},  # also `repeat`, which is in ON_LINKS, too
    **dict.fromkeys(("lost-checkpoint", "lost-index", "failing-segment", "full-disk"), "kill"),
    **dict.fromkeys(("slow-disk", "freeze-disk"), "pause"),
    **dict.fromkeys(("corrupted-segment", "truncated-segment", "read-only-disk"), "power-loss"),
    **dict.fromkeys(("leader-transfer", "reassignment"), "session-expiry"),
    **dict.fromkeys(("clock-step", "clock-drift", "controller-move", "partition-growth")),
    **dict.fromkeys(("client-kill", "client-pause")),
}
"""By fault kind, the kind in `FAULT_KINDS` that it counts as, once for each broker that it hits; None: as no fault."""
LOCKSTEP = "lockstep"
"""In events.jsonl, a phase in steps is itself reported as a fault of this kind, and never as healed."""
LOCKSTEP_COUNTS_AS = ("partition", "kill")  # the faults that a lock-step phase may bring to a lane
