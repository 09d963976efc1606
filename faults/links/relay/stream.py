"""One direction of a connection, as a stream of frames: the fate of each is decided before its first byte goes on.

Frames keep their order: if one waits, all behind it wait, as in a slow network. A frame is kept in memory only until
its fate is decided, or while it waits; large frames pass piece by piece.
"""

from collections.abc import Callable
from enum import Enum, auto

from kafka_chaos.faults.links.relay.frames import SIZE_BYTES, frame_size, with_size

HEAD_BYTES = 16 * 1024
"""How many bytes of a frame have to be there before its fate is decided; a smaller frame has to be there whole."""


Replacement = tuple[bytes, ...]
"""The frames that pass in a frame's place: another frame, the frame twice, or none."""


class Fate(Enum):
    """What becomes of a frame."""

    PASS = auto()
    WAIT = auto()
    """The frame waits until `go_on`."""
    WHOLE = auto()
    """The fate is not decided yet: that needs the whole frame."""
    LOSE = auto()
    """The frame is lost, and all behind it."""
    LAST = auto()
    """The frame passes, and nothing behind it; then `finished` is called."""
    END = auto()
    """The frame is lost, and all behind it; then `finished` is called."""
    OPAQUE = auto()
    """The bytes are not a frame of Kafka: the rest of the stream passes unchanged."""


class Stream:
    """The bytes of one direction.

    `inspect` decides the fate of a frame by the frame's beginning (without the size field) and size. If given the whole
    frame, it may also return the frames that pass in the frame's place. `send` gets the bytes that pass. `finished` is
    called when a fate ends the stream.
    """

    def __init__(
        self,
        inspect: Callable[[memoryview, int], Fate | Replacement],
        send: Callable[[memoryview], None],
        finished: Callable[[], None],
    ) -> None:
        self._inspect = inspect
        self._send = send
        self._finished = finished
        self._kept = bytearray()
        """Bytes that were received and not sent on yet."""
        self._needed = 0
        """The number of kept bytes with which the next decision is possible."""
        self._passing = 0
        """The number of bytes that are still to come of the frame that passes now."""
        self._next_passes = False
        """Whether the next frame passes without a decision: it has waited."""
        self._is_last = False
        self.waits = False
        self.ended = False
        self.opaque = False

    @property
    def kept(self) -> int:
        """The number of bytes that were received and not sent on yet."""
        return len(self._kept)

    def feed(self, data: memoryview) -> None:
        """Take bytes that came, and send on those that may pass."""
        if self.ended:
            return
        if self.waits or len(self._kept) + len(data) < self._needed:
            self._kept += data
            return
        if self._kept:
            data = memoryview(bytes(self._kept) + data)
            self._kept.clear()
        self._needed = 0
        rest = self._pass_frames(data)
        if not self.ended:
            self._kept += rest

    def go_on(self) -> None:
        """Let the frame that waits pass, and decide about those behind it."""
        self.waits, self._next_passes = False, True
        self.feed(memoryview(b""))

    def lose(self) -> None:
        """End the stream: nothing passes any more, and kept bytes are lost."""
        self.ended, self.waits = True, False
        self._kept.clear()

    def _pass_frames(self, data: memoryview) -> memoryview:
        """Decide about the frames in the data, send what may pass now, and return the rest."""
        position = 0
        while position < len(data):
            if self.opaque:
                position = len(data)
                break
            if self._passing:
                step = min(self._passing, len(data) - position)
                position += step
                self._passing -= step
                if self._is_last and not self._passing:
                    self._end(data[:position], calls_finished=True)
                    return data[position:]
                continue
            fate, size = self._decide(data, position)
            if fate is None or fate is Fate.WAIT:
                break
            if isinstance(fate, tuple):
                self._send(memoryview(data[:position].tobytes() + b"".join(map(with_size, fate))))
                data, position = data[position + SIZE_BYTES + size :], 0
                continue
            if fate in (Fate.LOSE, Fate.END):
                self._end(data[:position], calls_finished=fate is Fate.END)
                return data[position:]
            self.opaque = fate is Fate.OPAQUE
            self._is_last = fate is Fate.LAST
            self._passing = SIZE_BYTES + size
        if position:
            self._send(data[:position])
        return data[position:]

    def _decide(self, data: memoryview, position: int) -> tuple[Fate | Replacement | None, int]:
        """The fate of the frame that begins at `position`, or the frames that pass in its place; and the frame's size.

        The fate is None while too few of the frame's bytes are there.
        """
        available = len(data) - position - SIZE_BYTES
        if available < 0:
            return None, 0
        size = frame_size(data, position)
        if size < 0:
            return Fate.OPAQUE, 0
        if available < min(size, HEAD_BYTES):
            self._needed = SIZE_BYTES + min(size, HEAD_BYTES)
            return None, size
        if self._next_passes:
            self._next_passes = False
            return Fate.PASS, size
        begin = position + SIZE_BYTES
        fate = self._inspect(data[begin : begin + min(available, size)], size)
        if fate is Fate.WHOLE:
            self._needed = SIZE_BYTES + size
            return None, size
        self.waits = fate is Fate.WAIT
        return fate, size

    def _end(self, last: memoryview, *, calls_finished: bool) -> None:
        if last:
            self._send(last)
        self.lose()
        if calls_finished:
            self._finished()
