-- made of an input that nobody produced, or not before
-- of: produced; rests: of_loops
SELECT o.lane, o.source_producer_id AS producer_id, o.source_seq AS seq, g.lane AS of_lane
FROM `groups` g
JOIN produced o ON o.lane = g.judged
LEFT JOIN produced i ON i.lane = g.lane AND i.producer_id = o.source_producer_id AND i.seq = o.source_seq
WHERE g.is_loop = 1 AND o.source_producer_id IS NOT NULL AND o.source_seq IS NOT NULL
  AND (i.lane IS NULL OR o.invoke_ns < i.invoke_ns)
