"""After a step, brokers are observed until they agree with the model: of scenarios and stories.

What these bring is what is observed, and how that compares with the model. A step waits for agreement, never for time.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError, WaitTimeout
from kafka_chaos.contract.command.waiting import wait_until


class _Comparison(Protocol):
    @property
    def conforms(self) -> bool:
        """Whether the model allows what was observed."""


Seen = TypeVar("Seen")
Compared = TypeVar("Compared", bound=_Comparison)


def await_agreement(
    observe: Callable[[], Seen], compare: Callable[[Seen], Compared], *, timeout: float, interval: float = 0.1
) -> tuple[Seen, Compared]:
    """The first two equal observations in a row that the model allows, or the last one; and how it compares.

    An observation is not one moment, so one alone may have been of none. Raises `KafkaChaosError` where nothing
    could be observed, or nothing that lasts.
    """
    last: Seen | None = None
    before: Seen | None = None
    comparison: Compared | None = None
    trouble: KafkaChaosError | None = None

    def agreed() -> bool:
        nonlocal last, before, comparison, trouble
        try:
            seen = observe()
        except KafkaChaosError as error:
            # A file was being written, or a container was between two states: observe again, twice.
            trouble, before = error, None
            return False
        if comparison is None or seen != last:
            comparison = compare(seen)
        in_a_row, last, before = seen == before, seen, seen
        return comparison.conforms and in_a_row

    try:
        wait_until(agreed, "Kafka and the model to agree", timeout=timeout, interval=interval)
    except WaitTimeout:
        if trouble is not None and last is None:
            raise trouble from None
        if last is None or comparison is None:
            raise ClusterFailure("the cluster could not be observed") from trouble
        if comparison.conforms:
            seen = f"; the last error: {trouble}" if trouble else ""
            raise ClusterFailure(f"observations of the cluster never became stable{seen}") from trouble
    assert last is not None
    assert comparison is not None
    return last, comparison
