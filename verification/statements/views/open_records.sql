-- The records of the final log that belong to open transactions. Without replicas/ there is none, since nothing shows
-- how transactions ended. `hangs`: the history goes on for longer than the time-out and 30 s after its producer last
-- sent a record of it or heard of one, and after the last fault was healed. If not, its marker may yet come.
SELECT
  w.lane, w.`partition`, w.`offset`, w.producer_id, w.seq, w.`transaction`,
  h.ns - GREATEST(l.healed_ns, o.last_ns) > :slack_ns + l.timeout_ms * 1000000 AS hangs
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
