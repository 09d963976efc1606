-- read before it was sent
-- of: consumed; rests: precommitted_read
SELECT c.lane, c.`partition`, c.`offset`
FROM consumed c
LEFT SEMI JOIN early_blocks b ON b.lane = c.lane AND b.producer_id = c.producer_id AND b.block = SHIFTRIGHT(c.seq, 5)
JOIN produced p USING (lane, producer_id, seq)
WHERE c.poll_ns < p.invoke_ns
