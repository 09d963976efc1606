-- read before it was sent
-- of: consumed
SELECT c.lane, c.`partition`, c.`offset`
FROM consumed c
JOIN produced p ON p.lane = c.lane AND p.producer_id = c.producer_id AND p.seq = c.seq
WHERE c.poll_ns < p.invoke_ns
