"""Waits for a named condition, never for a fixed time. A time-out names the condition and what was seen last."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from kafka_chaos.contract.command.errors import WaitTimeout

T = TypeVar("T")

_NEVER = threading.Event()  # is never set: for waits that nothing cancels


def wait_until(
    condition: Callable[[], T | None],
    message: str,
    *,
    timeout: float,
    interval: float = 0.05,
    seen: Callable[[], str] | None = None,
    cancelled: threading.Event | None = None,
) -> T:
    """Call `condition` every `interval` seconds until its result is true, and return that result.

    `message` completes the sentence "gave up waiting for …". `seen` describes the state at the time-out. Setting
    `cancelled` ends the wait at once. Raises `WaitTimeout` after `timeout` seconds or on `cancelled`.
    """
    pause = cancelled or _NEVER
    start = time.monotonic()
    while True:
        result = condition()
        if result:
            return result
        waited = time.monotonic() - start
        if waited > timeout:
            detail = f"; seen last: {seen()}" if seen else ""
            raise WaitTimeout(f"gave up waiting for {message} after {waited:.1f} s{detail}")
        if pause.wait(interval):
            raise WaitTimeout(f"stopped waiting for {message}: the run was ended")
