-- of a group that no lane has
-- of: assignments; rests: of_groups
SELECT a.lane, a.`group`
FROM assignments a
LEFT JOIN `groups` g ON g.`group` = a.`group` AND g.lane = a.lane
WHERE a.`group` IS NOT NULL AND g.lane IS NULL
