-- in a transaction, though the lane has none
-- of: produced
SELECT s.lane, s.producer_id, s.n
FROM sends_by_transaction s
JOIN lanes l ON l.lane = s.lane
WHERE l.is_transactional = 0 AND s.`transaction` IS NOT NULL
