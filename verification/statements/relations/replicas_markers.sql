-- of: replicas; rests: of_log
SELECT
  m.lane, m.`partition`, m.first AS `offset`, m.n,
  m.producer_id >= 0 AND (w.first IS NULL OR w.first > m.first) AS `a marker of a producer without a record before it`,
  m.producer_id >= 0 AND t.producer_id IS NULL AS `a marker of a producer that transactions/ does not name`,
  l.is_transactional = 0 AS `a marker, though the lane has no transactions` -- rests: none
FROM (
  SELECT lane, `partition`, producer_id, COUNT(*) AS n, MIN(`offset`) AS first
  FROM replicas
  WHERE kind IN ('commit', 'abort')
  GROUP BY lane, `partition`, producer_id
) m
JOIN lanes l USING (lane)
LEFT JOIN writings w USING (lane, `partition`, producer_id)
LEFT JOIN (SELECT DISTINCT lane, producer_id FROM transactions) t ON t.lane = m.lane AND t.producer_id = m.producer_id
