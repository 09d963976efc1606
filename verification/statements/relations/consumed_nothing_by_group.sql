-- nothing by a group, of a partition in which there is something for it
-- of: consumed; rests: of_groups
SELECT g.judged AS lane, g.`group`, e.`partition`
FROM `groups` g
JOIN partition_ends e USING (lane)
JOIN lanes l USING (lane)
LEFT JOIN progress w USING (judged, `group`, `partition`)
WHERE w.first IS NULL AND (e.visible_end IS NOT NULL OR (l.final_log = 0 AND e.read_end IS NOT NULL))
