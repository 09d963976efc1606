-- The findings about a record whose producer met the precondition of a known defect (`met`, with its time, its partition
-- and the rest), and what the producer learned of the record. Of the defects about records that were under way, only
-- those that had been sent and had no outcome yet when that occurred.
SELECT
  f.number, f.lane, f.anomaly, f.producer_id, f.seq, p.`partition`, p.`offset`, p.`transaction`, p.outcome, m.defect, m.rule,
  m.ts_ns, m.`partition` AS of_partition, m.transactional_id, m.commits, m.messages
FROM findings f
JOIN met m USING (lane, producer_id)
JOIN produced p USING (lane, producer_id, seq)
WHERE m.rule NOT IN ('renewed_epoch', 'repeated') OR (
  p.invoke_ns <= m.ts_ns AND CASE WHEN p.complete_ns IS NULL THEN p.outcome = 'info' ELSE p.complete_ns >= m.ts_ns END
)
