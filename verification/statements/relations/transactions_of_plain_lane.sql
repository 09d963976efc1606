-- of a lane without transactions
-- of: transactions
SELECT t.lane, t.producer_id, t.`transaction`
FROM transactions t
JOIN lanes l ON l.lane = t.lane
WHERE l.is_transactional = 0
