-- The places at which the log or a read shows a record that nobody produced.
SELECT q.lane, q.`partition`, q.`offset`, q.producer_id, q.seq
FROM (
  SELECT lane, `partition`, `offset`, producer_id, seq FROM suspect_reads
  UNION ALL
  SELECT lane, `partition`, `offset`, producer_id, seq FROM suspect_log
) q
LEFT ANTI JOIN suspect_sends k USING (lane, producer_id, seq)
