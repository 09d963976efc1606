-- by a consumer that was not assigned the partition
-- of: commits; rests: of_commits
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
JOIN (SELECT DISTINCT `group` FROM assignments) k ON k.`group` = c.`group`
LEFT JOIN assignments a ON a.`group` = c.`group` AND a.consumer = c.consumer AND a.`partition` = c.`partition`
WHERE a.consumer IS NULL
