-- no replica holds just what the log holds
--
-- Compared below an offset that some broker knows to be committed (`bounds`).
-- of: replicas; rests: of_log, of_reads, of_loops, lost_write
SELECT r.lane, r.`partition`, b.bound AS below_offset
FROM (SELECT DISTINCT lane, `partition` FROM copies) r
LEFT JOIN contents g ON g.lane = r.lane AND g.`partition` = r.`partition` AND g.broker IS NULL
LEFT JOIN contents c
  ON c.lane = r.lane AND c.`partition` = r.`partition` AND c.broker IS NOT NULL AND c.n = COALESCE(g.n, 0)
  AND c.content = COALESCE(g.content, 0)
JOIN bounds b ON b.lane = r.lane AND b.`partition` = r.`partition`
JOIN lanes l ON l.lane = r.lane
WHERE l.final_log = 1 AND c.lane IS NULL
