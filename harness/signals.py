"""Ctrl-C, SIGTERM and SIGHUP: they end a run at once, except in sections that must not be interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

T = TypeVar("T")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a run to end."""

_RESEND_SECONDS = 0.02

_arrived: list[int] = []


def end_on_signals() -> None:
    """Let every signal of `ENDING` raise `KeyboardInterrupt` in the main thread of this process, and lose none.

    A signal that the process ignores stays ignored (nohup, background jobs of scripts). Python drops an exception that
    is raised within a finalizer or a callback of the garbage collector. A signal that arrives just then is sent again.
    """
    _arrived.clear()
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _send_again


def was_interrupted() -> bool:
    """Whether a signal of `ENDING` has arrived since `end_on_signals`."""
    return bool(_arrived)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Hold back the signals of `ENDING` until the block ends, even if it raises. Then deliver the last signal.

    Does nothing outside the main thread, where Python runs no signal handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)

    # A handler that was not installed by Python (None) could not be restored.
    held_back = [number for number in ENDING if signal.getsignal(number) is not None]
    before = {number: signal.signal(number, hold) for number in held_back}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[-1])


def new_client(kind: Callable[[dict[str, Any]], T], configs: Mapping[str, object]) -> T:
    """Construct a confluent-kafka client while the signals are held back.

    The client's constructor is written in C and reads the configs with `PyObject_Str`, which runs signal handlers. If a
    handler raises, the constructor raises a `TypeError` instead: an interrupt would look like a wrong config.
    """
    with signals_held_back():
        return kind(dict(configs))


def _interrupt(number: int, frame: FrameType | None) -> None:
    _arrived.append(number)
    raise KeyboardInterrupt


def _send_again(lost: UnraisableHookArgs) -> None:
    if isinstance(lost.exc_value, KeyboardInterrupt):
        # A thread sends the signal a moment later. Sent here, it would be lost again.
        threading.Timer(_RESEND_SECONDS, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
