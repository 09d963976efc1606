-- The places at which the log or a read shows a record that nobody produced.
--
-- tables: consumed, log, known
SELECT q.lane, q.`partition`, q.`offset`, q.producer_id, q.seq
FROM (
  SELECT lane, `partition`, `offset`, producer_id, seq FROM consumed
  UNION ALL
  SELECT lane, `partition`, `offset`, producer_id, seq FROM log
) q
LEFT ANTI JOIN known k ON k.lane = q.lane AND k.producer_id = q.producer_id AND k.seq = q.seq
