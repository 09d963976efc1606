-- KAFKA-5385: the record is in no log, and its transaction, which was committed without it, was open when records of its
-- producer expired. The same goes for each other record that the transaction lacks: none was acknowledged.
SELECT s.number, s.defect
FROM suspected s
JOIN transactions t USING (lane, producer_id, `transaction`)
LEFT ANTI JOIN log g USING (lane, producer_id, seq)
LEFT ANTI JOIN (
  SELECT r.*
  FROM lacking r
  LEFT JOIN log g USING (lane, producer_id, seq)
  WHERE r.outcome = 'ok' OR g.`offset` IS NOT NULL
) r USING (lane, producer_id, `transaction`)
WHERE s.rule = 'committed_without' AND s.outcome = 'info' AND t.outcome = 'committed'
  AND s.ts_ns BETWEEN t.begin_ns AND t.end_ns
