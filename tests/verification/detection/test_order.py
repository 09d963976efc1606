"""What is in the wrong order, in histories whose content is right: no word of the prefilter is in doubt for it."""

from pathlib import Path
from random import Random

from tests.verification.oracle.rows import LaneHistory, Produced, Read, Stored
from tests.verification.samples.engines import Verified, counted
from tests.verification.samples.run_dirs import write_histories

LANES = 60


def disordered_history(random: Random) -> LaneHistory:
    """Every record is acknowledged where it is stored, and read; some are appended or read before their turn."""
    history = LaneHistory(log=[])
    assert history.log is not None
    partitions, producers = random.randint(1, 2), random.randint(1, 3)
    ends, run_of = [0] * partitions, random.choice([1, 5, 40])
    numbers = list(range(random.randint(40, 300)))
    for at in random.sample(numbers[1:], random.choice([0, 1, 4])):
        numbers[at - 1], numbers[at] = numbers[at], numbers[at - 1]
    for at, seq in enumerate(numbers):
        partition, producer = random.randrange(partitions), seq // run_of % producers
        history.log.append(Stored(partition, ends[partition], producer, seq))
        outcome = "ok" if random.random() < 0.995 else "info"
        history.produced.append(Produced(producer, seq, partition, ends[partition], outcome, invoke_ns=at * 10))
        ends[partition] += 1
    for consumer in range(random.randint(1, 3)):
        history.consumed += _reads(random, f"c{consumer}", history.log)
    return history


def _reads(random: Random, consumer: str, log: list[Stored]) -> list[Read]:
    rows = list(log[random.choice([0, 0, 7, 64]) :])
    # Whole words of 32 offsets, where there is one partition, or less and more.
    step, lengths = random.choice([(32, [32, 64]), (1, [1, 2, 31, 33])])
    for _ in range(random.choice([0, 0, 1, 3])):
        since = random.randrange(len(rows) + 1) // step * step
        until = since + random.choice(lengths)
        damage = random.choice(["moved", "left out", "read again", "phantom"])
        part = rows[since:until]
        if damage == "moved":
            rows[since:until] = []
            target = random.choice([0, step, since + step, len(rows)])
            rows[target:target] = part
        elif damage == "left out":
            rows[since:until] = []
        elif damage == "read again":
            rows[until:until] = part
        elif part:
            rows.insert(random.randrange(len(rows)), part[0]._replace(producer_id=9))
    moments = [1_000_000 + 10 * at for at in range(len(rows))]
    if moments and random.random() < 0.3:
        at = random.randrange(len(moments))
        moments[at] += random.choice([-400, -10, 10, 400])
    return [Read(consumer, *row, poll_ns=moment) for row, moment in zip(rows, moments, strict=True)]


def test_order_is_judged_in_words_of_clean_content(tmp_path: Path, verified: Verified) -> None:
    random = Random(51)
    lanes = {f"lane-{number}": disordered_history(random) for number in range(LANES)}
    found = counted(verified(write_histories(tmp_path / "run", lanes)))
    assert min(found[name] for name in ("reordered", "nonmonotonic_poll", "skipped_poll", "phantom")) > LANES / 6, found
