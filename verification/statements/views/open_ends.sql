-- By partition, a record of the final log that belongs to an open transaction: the first one of a transaction that hangs,
-- or else the first one, which holds the last stable offset back. Without replicas/ there is no row, since nothing shows
-- how transactions ended. `hangs`: the history goes on for longer than the time-out and 30 s after its producer last sent
-- a record of the transaction or heard of one, and after the last fault was healed.
SELECT
  lane, `partition`, first.`offset` AS `offset`, first.producer_id AS producer_id, first.seq AS seq,
  first.`transaction` AS `transaction`, first.waits = 0 AS hangs
FROM (
  SELECT lane, `partition`, MIN(STRUCT(waits, `offset`, producer_id, seq, `transaction`)) AS first
  FROM (
    SELECT
      w.lane, w.`partition`, w.`offset`, w.producer_id, w.seq, w.`transaction`,
      CASE
        WHEN h.ns - GREATEST(l.healed_ns, o.last_ns) > :slack_ns + l.timeout_ms * 1000000 THEN 0 ELSE 1
      END AS waits
    FROM written w
    JOIN transaction_summaries o USING (lane, producer_id, `transaction`)
    JOIN lanes l USING (lane)
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
    ) h USING (lane)
    WHERE w.fate IS NULL AND l.has_replicas = 1
  ) q
  GROUP BY lane, `partition`
) q
