-- By partition, the first record of the final log that belongs to an open transaction: it holds the last stable offset
-- back. Without replicas/ there is no row, since nothing shows how transactions ended. `hangs`: the history goes on for
-- longer than the time-out and 30 s after its producer last sent a record of the transaction or heard of one, and after
-- the last fault was healed.
SELECT
  q.lane, q.`partition`, q.first.`offset` AS `offset`, q.first.producer_id AS producer_id, q.first.seq AS seq,
  o.`transaction`, h.ns - GREATEST(l.healed_ns, o.last_ns) > :slack_ns + l.timeout_ms * 1000000 AS hangs
FROM (
  SELECT w.lane, w.`partition`, MIN(STRUCT(w.`offset`, w.producer_id, w.seq, w.`transaction`)) AS first
  FROM written w
  JOIN lanes l ON l.lane = w.lane
  WHERE w.fate IS NULL AND l.has_replicas = 1
  GROUP BY w.lane, w.`partition`
) q
JOIN transaction_summaries o
  ON o.lane = q.lane AND o.producer_id = q.first.producer_id AND o.`transaction` = q.first.`transaction`
JOIN lanes l ON l.lane = q.lane
JOIN (
  SELECT lane, MAX(ns) AS ns
  FROM (
    SELECT lane, MAX(GREATEST(invoke_ns, COALESCE(complete_ns, 0))) AS ns FROM produced GROUP BY lane
    UNION ALL
    SELECT lane, MAX(poll_ns) FROM consumed GROUP BY lane
    UNION ALL
    SELECT lane, MAX(GREATEST(begin_ns, COALESCE(end_ns, 0))) FROM transactions GROUP BY lane
  ) q
  GROUP BY lane
) h ON h.lane = q.lane
