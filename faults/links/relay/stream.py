"""One direction of a connection: cuts it into frames, and asks about each before its first byte goes on.

Frames keep their order. One that waits lets all behind it wait, as a slow network would. No frame is kept in memory
longer than it takes to decide, unless it waits; large ones pass piece by piece.
"""

from collections.abc import Callable
from enum import Enum, auto

from kafka_chaos.faults.links.relay.frames import SIZE_BYTES, frame_size

HEAD = 16 * 1024
"""Bytes of a frame that are there, or all of a smaller one, when the question about it is asked."""


class Fate(Enum):
    """The treatment of a frame."""

    PASS = auto()
    WAIT = auto()
    """It waits, until `go_on`."""
    WHOLE = auto()
    """Ask again once all of it is there."""
    LOSE = auto()
    """It is lost, and all behind it."""
    LAST = auto()
    """It passes, and nothing behind it; then `finished` is called."""
    END = auto()
    """It is lost, and all behind it; then `finished` is called."""
    OPAQUE = auto()
    """It is none of Kafka's: this and all that follows passes without questions."""


class Stream:
    """`inspect` decides a frame by its beginning (without the size) and its whole size; `send` takes what passes."""

    def __init__(
        self,
        inspect: Callable[[memoryview, int], Fate],
        send: Callable[[memoryview], None],
        finished: Callable[[], None],
    ) -> None:
        self._inspect = inspect
        self._send = send
        self._finished = finished
        self._left = bytearray()
        self._needed = 0
        self._passing = 0
        self._is_decided = False
        self._is_last = False
        self.waits = False
        self.ended = False
        self.opaque = False

    @property
    def kept(self) -> int:
        """Bytes that came and did not go on."""
        return len(self._left)

    def feed(self, data: memoryview) -> None:
        """Take what came, and let go on what may."""
        if self.ended:
            return
        if self.waits or len(self._left) + len(data) < self._needed:
            self._left += data
            return
        if self._left:
            data = memoryview(bytes(self._left) + data)
            self._left.clear()
        self._needed = 0
        gone = self._cut(data)
        if not self.ended:
            if gone:
                self._send(data[:gone])
            self._left += data[gone:]

    def go_on(self) -> None:
        """Let the frame that waits pass, and ask about those behind it."""
        self.waits, self._is_decided = False, True
        self.feed(memoryview(b""))

    def lose(self) -> None:
        """Nothing goes on from here."""
        self.ended, self.waits = True, False
        self._left.clear()

    def _cut(self, data: memoryview) -> int:
        """How far the data may go on, from frame to frame."""
        position, end = 0, len(data)
        while position < end:
            if self.opaque:
                return end
            if self._passing:
                step = min(self._passing, end - position)
                position += step
                self._passing -= step
                if self._is_last and not self._passing:
                    self._end(data[:position], tell=True)
                    return position
                continue
            fate, size = self._decide(data, position)
            if fate is None or fate is Fate.WAIT:
                return position
            if fate in (Fate.LOSE, Fate.END):
                self._end(data[:position], tell=fate is Fate.END)
                return position
            self.opaque = fate is Fate.OPAQUE
            self._is_last = fate is Fate.LAST
            self._passing = SIZE_BYTES + size
        return position

    def _decide(self, data: memoryview, position: int) -> tuple[Fate | None, int]:
        """The fate of the frame that begins here, and its size; None where not enough of it is there yet."""
        there = len(data) - position - SIZE_BYTES
        if there < 0:
            return None, 0
        size = frame_size(data, position)
        if size < 0:
            return Fate.OPAQUE, 0
        if there < min(size, HEAD):
            self._needed = SIZE_BYTES + min(size, HEAD)
            return None, size
        if self._is_decided:
            self._is_decided = False
            return Fate.PASS, size
        begin = position + SIZE_BYTES
        fate = self._inspect(data[begin : begin + min(there, size)], size)
        if fate is Fate.WHOLE:
            self._needed = SIZE_BYTES + size
            return None, size
        self.waits = fate is Fate.WAIT
        return fate, size

    def _end(self, last: memoryview, *, tell: bool) -> None:
        if last:
            self._send(last)
        self.lose()
        if tell:
            self._finished()
