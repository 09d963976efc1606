"""A stream cuts what comes into frames, however it comes, and does to each what it is told."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_chaos.faults.links.relay.stream import HEAD_BYTES, Fate, Stream


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Passing:
    """A stream whose frames' fates a test decides; what passed, and what was asked."""

    def __init__(self, fate: Callable[[bytes], Fate] = lambda _: Fate.PASS) -> None:
        self.passed = b""
        self.asked: list[bytes] = []
        self._fate = fate
        self.stream = Stream(self._inspect, self._send, lambda: None)

    def _inspect(self, frame: memoryview, size: int) -> Fate:
        self.asked.append(bytes(frame))
        assert len(frame) <= size
        return self._fate(bytes(frame))

    def _send(self, data: memoryview) -> None:
        self.passed += bytes(data)

    def feed(self, data: bytes, pieces: int = 1 << 30) -> None:
        for start in range(0, len(data), pieces):
            self.stream.feed(memoryview(data[start : start + pieces]))


@given(st.lists(st.integers(0, 3 * HEAD_BYTES), max_size=6), st.integers(1, 2 * HEAD_BYTES))
def test_all_passes_unchanged_and_each_frame_is_asked_about_once(sizes: list[int], piece: int) -> None:
    bodies = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    passing = Passing()
    passing.feed(b"".join(map(framed, bodies)), max(piece, 64))
    assert passing.passed == b"".join(map(framed, bodies))
    assert [asked[:HEAD_BYTES] for asked in passing.asked] == [body[:HEAD_BYTES] for body in bodies]


@pytest.mark.parametrize("piece", [1, 3, 1000])
def test_one_that_waits_lets_all_behind_it_wait(piece: int) -> None:
    passing = Passing(lambda frame: Fate.WAIT if frame == b"b" else Fate.PASS)
    frames = [framed(body) for body in (b"a", b"b", b"c")]
    passing.feed(b"".join(frames), piece)
    assert passing.passed == frames[0]
    assert passing.stream.waits
    assert passing.asked == [b"a", b"b"]
    passing.stream.go_on()
    assert passing.passed == b"".join(frames)
    assert passing.asked == [b"a", b"b", b"c"], "what waited is not asked about again"
    assert not passing.stream.waits


def test_a_large_frame_is_asked_about_again_once_it_is_whole() -> None:
    body = b"x" * (5 * HEAD_BYTES)
    passing = Passing(lambda frame: Fate.PASS if len(frame) == len(body) else Fate.WHOLE)
    passing.feed(framed(body)[:-1], 1000)
    assert passing.passed == b""
    passing.feed(framed(body)[-1:])
    assert passing.passed == framed(body)
    assert len(passing.asked) == 2


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00 a TLS handshake", b"GET / HTTP/1.1\r\n\r\n"])
def test_what_is_no_frame_passes_untouched(data: bytes) -> None:
    passing = Passing()
    passing.feed(data * 100, 7)
    assert passing.passed == data * 100
    assert passing.stream.opaque
    assert not passing.asked
