-- in no transaction, though the lane has them
-- of: produced; rests: of_log, of_reads
SELECT s.lane, s.producer_id, s.n
FROM sent s
JOIN lanes l ON l.lane = s.lane
WHERE l.timeout_ms IS NOT NULL AND s.`transaction` IS NULL
