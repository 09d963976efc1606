-- in no transaction, though the lane has them
-- of: produced; rests: of_log, of_reads
SELECT s.lane, s.producer_id, s.n
FROM sends_by_transaction s
JOIN lanes l ON l.lane = s.lane
WHERE l.is_transactional = 1 AND s.`transaction` IS NULL
