-- begins past the first offset that every broker has
-- of: log
SELECT c.lane, c.`partition`, c.start AS `offset`
FROM (
  SELECT lane, `partition`, MAX(log_start) AS start, MIN(high_watermark) AS mark
  FROM checkpoints
  GROUP BY lane, `partition` HAVING COUNT(log_start) = COUNT(*)
) c
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
WHERE l.final_log = 1 AND l.cleaned = 1 AND l.compacted = 0 AND l.is_transactional = 0
  AND c.start < COALESCE(e.log_start, c.mark)
