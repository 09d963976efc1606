-- The commit was acknowledged, and no record of the transaction is committed in the final log.
--
-- Counted in transactions that sent a record; the row names their first one. A transaction whose outcome the producer does
-- not know is never lost.
--
-- unit: transaction
-- tables: outlines, members
SELECT
  o.lane, m.`partition`, m.`offset`, o.producer_id, m.seq,
  'transaction ' || o.`transaction` || ' of ' || o.sent || ' records' AS cause
FROM outlines o
JOIN members m ON m.lane = o.lane AND m.producer_id = o.producer_id AND m.seq = o.first_sent
WHERE o.outcome = 'committed' AND o.sent > 0 AND o.committed = 0
