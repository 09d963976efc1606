-- read as committed before the last record of its transaction was sent
-- of: consumed; rests: of_reads
SELECT c.lane, c.`partition`, c.`offset`
FROM (SELECT DISTINCT lane, consumer FROM assignments WHERE isolation = 'read_committed') a
JOIN consumed c USING (lane, consumer)
JOIN produced p USING (lane, producer_id, seq)
JOIN sends_by_transaction s USING (lane, producer_id, `transaction`)
WHERE c.poll_ns < s.last_ns
