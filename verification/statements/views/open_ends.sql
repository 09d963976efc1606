-- The first record of each partition that is in an open transaction: what holds the last stable offset back. None if
-- nothing shows how transactions ended. `last_ns`: when its producer last heard of a record of the transaction.
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
JOIN outlines o
  ON o.lane = q.lane AND o.producer_id = q.first.producer_id AND o.`transaction` = q.first.`transaction`
