-- KAFKA-5385: the record is in no log, and its transaction, which was committed without it, was open when records of its
-- producer expired.
SELECT s.number, s.defect
FROM suspected s
JOIN transactions t USING (lane, producer_id, `transaction`)
LEFT ANTI JOIN log g USING (lane, producer_id, seq)
WHERE s.rule = 'committed_without' AND s.outcome = 'info' AND t.outcome = 'committed'
  AND s.ts_ns BETWEEN t.begin_ns AND t.end_ns
