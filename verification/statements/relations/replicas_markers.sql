-- of: replicas; rests: of_log
SELECT
  m.lane, m.`partition`, m.first AS `offset`, m.n,
  m.producer_id >= 0 AND (w.first IS NULL OR w.first > m.first) AS `a marker of a producer without a record before it`,
  m.producer_id >= 0 AND t.producer_id IS NULL AS `a marker of a producer that transactions/ does not name`,
  l.is_transactional = 0 AS `a marker, though the lane has no transactions` -- rests: none
FROM (SELECT * FROM writings WHERE is_marker) m
JOIN lanes l USING (lane)
LEFT JOIN (SELECT * FROM writings WHERE NOT is_marker) w USING (lane, `partition`, producer_id)
LEFT JOIN (SELECT DISTINCT lane, producer_id FROM transactions) t ON t.lane = m.lane AND t.producer_id = m.producer_id
