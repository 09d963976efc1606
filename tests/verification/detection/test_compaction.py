"""What is lost in compacted lanes: a record that the log lacks, and that compaction can't have removed."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.verification.samples.engines import Verified
from tests.verification.samples.run_dirs import Rows, read_cases, write_json

CASES = YAML(typ="safe").load(Path(__file__).with_name("compaction.yaml"))


@pytest.mark.usefixtures("everything_forbidden")
@pytest.mark.parametrize(("kind", "is_timed"), [("transactional", True), ("plain", True), ("plain", False)])
def test_what_a_later_record_of_the_key_or_an_old_tombstone_excuses_is_not_lost(
    tmp_path: Path, verified: Verified, kind: str, is_timed: bool
) -> None:
    settings = {"transactional": {"timeout_ms": 60_000}, "idempotence": True} if kind == "transactional" else {}
    cases = CASES[kind]
    rows = Rows([{"lane": lane, "cleanup_policy": "compact", "partitions": 2, **settings} for lane in cases])
    for lane, case in cases.items():
        for offset, change in enumerate([*case.get("changes", []), {}, {}, {}][:3]):
            where = {"lane": lane, "partition": change.get("partition", 0)}
            rows.send(offset, offset, **where)
            rows.produced[-1] |= {"key": "k", **change}
            if "outcome" not in change:
                rows.read(offset, offset, **where)
            if offset in case["kept"]:
                rows.store(offset, offset, **where)
    if kind == "transactional":
        named = {"producer_id": 0, "transactional_id": "t", "begin_ns": 0, "end_ns": 1}
        ends = list(enumerate(("aborted", "info", "committed")))
        rows.transactions = [{"lane": of, "transaction": n, "outcome": end, **named} for of in cases for n, end in ends]
        rows.assignments = []
    run = rows.event("step", ts_ns=86_400_000_000_500, text="verifying").write(tmp_path / "run")
    if is_timed:
        write_json(run / "experiment.yaml", {})
    verdict, found = verified(run), read_cases(run)
    for lane, case in cases.items():
        lost = case["lost"] if is_timed else case.get("lost_untimed", case["lost"])
        for anomaly in ("lost_write", "truncated_read"):
            assert [one.seq for one in found.get(lane, []) if one.anomaly == anomaly] == lost, lane
        in_doubt = any("nothing shows why" in why for why in verdict.lane(lane).reasons)
        assert in_doubt == (lane == "no key" or (not is_timed and "lost_untimed" in case)), lane
