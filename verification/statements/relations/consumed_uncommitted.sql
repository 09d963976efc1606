-- read as committed before the last record of its transaction was sent
-- of: consumed; rests: of_reads
SELECT c.lane, c.`partition`, c.`offset`
FROM (SELECT DISTINCT lane, consumer FROM assignments WHERE isolation = 'read_committed') a
JOIN consumed c ON c.lane = a.lane AND c.consumer = a.consumer
JOIN produced p ON p.lane = c.lane AND p.producer_id = c.producer_id AND p.seq = c.seq
JOIN sends_by_transaction s ON s.lane = p.lane AND s.producer_id = p.producer_id AND s.`transaction` = p.`transaction`
WHERE c.poll_ns < s.last_ns
