-- read before it was sent
--
-- Only blocks, 32 numbers of a producer, whose first read was before their last sending are examined row by row.
-- of: consumed
SELECT c.lane, c.`partition`, c.`offset`
FROM consumed c
LEFT SEMI JOIN (
  SELECT s.lane, s.producer_id, s.block
  FROM sent_blocks s
  JOIN (
    SELECT lane, producer_id, seq DIV 32 AS block, MIN(poll_ns) AS first_ns
    FROM consumed
    GROUP BY lane, producer_id, seq DIV 32
  ) r USING (lane, producer_id, block)
  WHERE r.first_ns < s.last_ns
) b ON b.lane = c.lane AND b.producer_id = c.producer_id AND b.block = c.seq DIV 32
JOIN produced p USING (lane, producer_id, seq)
WHERE c.poll_ns < p.invoke_ns
