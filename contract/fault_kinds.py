"""The kinds of faults that a lane can have lived through, as `faults` in lanes.json names them.

These are what the model distinguishes. A kind of fault that an experiment injects says by which of them the model is
to account for it.
"""

from __future__ import annotations

FAULT_KINDS = ("kill", "stop", "pause", "partition", "power-loss", "session-expiry")
