-- nothing by a group, of a partition in which there is something for it
-- of: consumed; rests: of_groups
SELECT g.judged AS lane, g.`group`, e.`partition`
FROM `groups` g
JOIN partition_ends e ON e.lane = g.lane
JOIN lanes l ON l.lane = g.lane
LEFT JOIN progress w ON w.judged = g.judged AND w.`group` = g.`group` AND w.`partition` = e.`partition`
WHERE w.first IS NULL AND (e.visible_end IS NOT NULL OR (l.final_log = 0 AND e.read_end IS NOT NULL))
