-- of: produced; rests: of_loops
SELECT
  o.lane, o.source_producer_id AS producer_id, o.source_seq AS seq, g.lane AS of_lane,
  i.lane IS NULL OR o.invoke_ns < i.invoke_ns AS `made of an input that nobody produced, or not before`,
  r.lane IS NULL OR o.invoke_ns < r.first_ns AS `made of an input that its loop had not read`
FROM `groups` g
JOIN produced o ON o.lane = g.judged
LEFT JOIN produced i ON i.lane = g.lane AND i.producer_id = o.source_producer_id AND i.seq = o.source_seq
LEFT JOIN (
  SELECT m.`group`, c.lane, c.producer_id, c.seq, MIN(c.poll_ns) AS first_ns
  FROM consumed c
  JOIN (
    SELECT DISTINCT a.`group`, a.consumer
    FROM assignments a
    JOIN `groups` l USING (`group`)
    WHERE l.is_loop = 1
  ) m USING (consumer)
  GROUP BY m.`group`, c.lane, c.producer_id, c.seq
) r ON r.`group` = g.`group` AND r.lane = g.lane AND r.producer_id = o.source_producer_id AND r.seq = o.source_seq
WHERE g.is_loop = 1 AND o.source_producer_id IS NOT NULL AND o.source_seq IS NOT NULL
