-- a marker of a producer without a record before it
-- of: replicas; rests: of_log
SELECT m.lane, m.`partition`, m.first AS `offset`, m.n
FROM markers m
LEFT JOIN writings w ON w.lane = m.lane AND w.`partition` = m.`partition` AND w.producer_id = m.producer_id
WHERE m.producer_id >= 0 AND (w.first IS NULL OR w.first > m.first)
