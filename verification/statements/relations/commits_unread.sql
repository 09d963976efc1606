-- of an offset that its consumer had not read up to
--
-- Offset 0 is where a consumer stands that was given nothing.
-- of: commits; rests: of_commits, of_loops
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
LEFT JOIN reads_by_partition r ON r.lane = c.lane AND r.consumer = c.consumer AND r.`partition` = c.`partition`
LEFT JOIN (
  SELECT `group`, `partition`, `offset`, MIN(invoke_ns) AS first_ns FROM commits GROUP BY `group`, `partition`, `offset`
) b ON b.`group` = c.`group` AND b.`partition` = c.`partition` AND b.`offset` = c.`offset` AND b.first_ns < c.invoke_ns
WHERE c.after = 1 AND c.`offset` > 0 AND c.outcome <> 'fail' AND b.`offset` IS NULL
  AND (r.consumer IS NULL OR r.first_ns > c.invoke_ns OR (c.gaps = 0 AND c.`offset` > r.last + 1))
