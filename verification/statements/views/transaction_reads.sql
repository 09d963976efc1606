-- Dependencies between transactions, committed for their producers or in the log, of which one has read from the other.
SELECT DISTINCT
  c.lane, w.producer_id, w.`transaction`, r.producer_id AS to_producer_id, r.`transaction` AS to_transaction
FROM (SELECT * FROM committed_reads WHERE reading_transaction IS NOT NULL) c
JOIN transaction_records m USING (lane, producer_id, seq)
JOIN transaction_summaries w ON w.lane = m.lane AND w.producer_id = m.producer_id AND w.`transaction` = m.`transaction`
JOIN transaction_summaries r
  ON r.lane = c.lane AND r.producer_id = c.reading_producer_id AND r.`transaction` = c.reading_transaction
WHERE (w.outcome = 'committed' OR w.committed > 0) AND (r.outcome = 'committed' OR r.committed > 0)
  AND (w.producer_id <> r.producer_id OR w.`transaction` <> r.`transaction`)
