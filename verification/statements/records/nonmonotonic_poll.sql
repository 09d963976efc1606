-- One consumer's offsets in a partition, in `poll_ns` order, do not increase. Reads at one moment are no evidence of it.
--
-- `consumer` names one assignment: a rebalance or a seek starts a new name.
-- unit: neighbouring pairs
-- row: the later read
SELECT
  lane, `partition`, `offset`, producer_id, seq, consumer || ' read it after offset ' || previous AS cause
FROM polls
WHERE `offset` <= previous AND poll_ns > previous_ns
