-- Its outcome is `committed`, and none of its records is committed, nor open without hanging.
--
-- Only transactions that sent a record count. One whose outcome the producer does not know is never lost.
-- unit: transactions
-- row: its first record
SELECT
  o.lane, m.`partition`, m.`offset`, o.producer_id, m.seq,
  'transaction ' || o.`transaction` || ' of ' || o.sent || ' records' AS cause
FROM transaction_summaries o
LEFT ANTI JOIN (SELECT * FROM open_records WHERE NOT hangs) w USING (lane, producer_id, `transaction`)
JOIN transaction_records m ON m.lane = o.lane AND m.producer_id = o.producer_id AND m.seq = o.first_sent
WHERE o.outcome = 'committed' AND o.sent > 0 AND o.committed = 0
