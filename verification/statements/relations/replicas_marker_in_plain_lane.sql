-- a marker, though the lane has no transactions
-- of: replicas
SELECT m.lane, m.`partition`, m.first AS `offset`, m.n
FROM markers m
JOIN lanes l ON l.lane = m.lane
WHERE l.is_transactional = 0
