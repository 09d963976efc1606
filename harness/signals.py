"""Ctrl-C, SIGTERM and SIGHUP: they end a run at once, except in sections that must not be interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

T = TypeVar("T")

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that ask a run to end."""

CLIENT_NICE = 15  # brokers have 0
_RESEND_DELAY_S = 0.02

_arrived: list[int] = []


def end_on_signals() -> None:
    """Let every signal of `END_SIGNALS` raise `KeyboardInterrupt` in the main thread of this process, and lose none.

    A signal that the process ignores stays ignored (nohup, background jobs of scripts). Python drops an exception that
    is raised within a finalizer or a callback of the garbage collector: a signal that arrives just then is sent again.
    """
    _arrived.clear()
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    sys.unraisablehook = _send_again


def was_interrupted() -> bool:
    """Whether a signal of `END_SIGNALS` has arrived since `end_on_signals`."""
    return bool(_arrived)


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Hold back the signals of `END_SIGNALS` until the block ends, even if it raises. Then deliver the last one.

    Does nothing in any other thread than the main thread: Python runs no signal handlers there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    # A handler that was not installed by Python (None) could not be restored.
    replaceable = [number for number in END_SIGNALS if signal.getsignal(number) is not None]
    handlers = {number: signal.signal(number, hold) for number in replaceable}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if arrived:
            signal.raise_signal(arrived[-1])


def new_client(client_class: Callable[[dict[str, Any]], T], configs: Mapping[str, object], *, yields: bool = True) -> T:
    """Make a confluent-kafka client of this class while the signals are held back; `yields`: whether to brokers.

    The client's constructor is written in C and reads the configs with `PyObject_Str`, which runs signal handlers. If a
    handler raised, the constructor would raise a `TypeError` instead, and the interrupt would look like a wrong config.
    """
    with signals_held_back(), ThreadPoolExecutor(1, initializer=yield_to_brokers if yields else None) as thread:
        return thread.submit(client_class, dict(configs)).result()


def yield_to_brokers(process_id: int = 0) -> None:
    """Let a process, or this thread (0), and what it starts, have the processor time that brokers leave.

    All containers weigh as much as one thread, and librdkafka and kafka-python spin while a leader does not answer.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process_id, CLIENT_NICE)


def _interrupt(number: int, frame: FrameType | None) -> None:
    _arrived.append(number)
    raise KeyboardInterrupt


def _send_again(lost: UnraisableHookArgs) -> None:
    if isinstance(lost.exc_value, KeyboardInterrupt):
        # A thread sends the signal a moment later: sent at once, it would be lost again.
        threading.Timer(_RESEND_DELAY_S, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        sys.__unraisablehook__(lost)
