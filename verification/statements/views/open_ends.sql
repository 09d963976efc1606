-- By partition, the first record of the final log that belongs to an open transaction: it holds the last stable offset
-- back. Without replicas/ there is no row, since nothing shows how transactions ended. `last_ns`: when its producer last
-- sent a record of the transaction, or heard of one.
--
-- keep: yes
SELECT
  q.lane, q.`partition`, q.first.`offset` AS `offset`, q.first.producer_id AS producer_id, q.first.seq AS seq,
  o.`transaction`, o.last_ns
FROM (
  SELECT w.lane, w.`partition`, MIN(STRUCT(w.`offset`, w.producer_id, w.seq, w.`transaction`)) AS first
  FROM written w
  JOIN lanes l ON l.lane = w.lane
  WHERE w.fate IS NULL AND l.has_replicas = 1
  GROUP BY w.lane, w.`partition`
) q
JOIN transaction_summaries o
  ON o.lane = q.lane AND o.producer_id = q.first.producer_id AND o.`transaction` = q.first.`transaction`
