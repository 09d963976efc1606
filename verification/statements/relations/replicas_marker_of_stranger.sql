-- a marker of a producer that transactions/ does not name
-- of: replicas; rests: of_log
SELECT m.lane, m.`partition`, m.first AS `offset`, m.n
FROM markers m
LEFT JOIN (SELECT DISTINCT lane, producer_id FROM transactions) t ON t.lane = m.lane AND t.producer_id = m.producer_id
WHERE m.producer_id >= 0 AND t.producer_id IS NULL
