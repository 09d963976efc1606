"""The kinds of faults that a lane may go through, as `faults` in lanes.json names them.

These are the kinds that the model distinguishes. Each fault kind of an experiment says which of them the model has to
expect (`Fault.model_faults`).
"""

from __future__ import annotations

FAULT_KINDS = ("kill", "stop", "pause", "partition", "power-loss", "session-expiry")
