-- The blocks, 32 numbers of a producer, whose first read was before their last sending.
SELECT DISTINCT s.lane, s.producer_id, s.block
FROM sent_blocks s
JOIN (
  SELECT lane, producer_id, SHIFTRIGHT(seq, 5) AS block, MIN(poll_ns) AS first_ns
  FROM consumed
  GROUP BY lane, producer_id, SHIFTRIGHT(seq, 5)
) r USING (lane, producer_id, block)
WHERE r.first_ns < s.last_ns
