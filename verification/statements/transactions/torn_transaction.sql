-- Of a transaction's records, some are committed and some are not; or a `read_committed` consumer was given some of its
-- committed records, and stepped over others. Not if its outcome is `aborted`.
--
-- What is not committed may be aborted, open or absent from the log. Records whose outcome is `fail` don't count: they
-- were certainly not written.
--
-- unit: transactions
-- row: the first record that is not committed, or was stepped over
SELECT q.lane, m.`partition`, m.`offset`, q.producer_id, q.seq, q.cause
FROM (
  SELECT
    lane, producer_id, first_lacking AS seq,
    'transaction ' || `transaction` || ': ' || committed || ' of ' || sent || ' records are committed' AS cause
  FROM transaction_summaries
  WHERE outcome <> 'aborted' AND committed > 0 AND committed < sent
  UNION ALL
  SELECT o.lane, o.producer_id, g.seq, 'transaction ' || o.`transaction` || ': given in part to ' || g.consumer
  FROM transaction_summaries o
  JOIN given_in_part g ON g.lane = o.lane AND g.producer_id = o.producer_id AND g.`transaction` = o.`transaction`
  WHERE o.outcome <> 'aborted' AND NOT (o.committed > 0 AND o.committed < o.sent)
) q
JOIN transaction_records m ON m.lane = q.lane AND m.producer_id = q.producer_id AND m.seq = q.seq
