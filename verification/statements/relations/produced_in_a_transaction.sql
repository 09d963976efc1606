-- in a transaction, though the lane has none
-- of: produced
SELECT s.lane, s.producer_id, s.n
FROM sent s
JOIN lanes l ON l.lane = s.lane
WHERE l.timeout_ms IS NULL AND s.`transaction` IS NOT NULL
