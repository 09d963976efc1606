-- past the end of the log
-- of: commits; rests: of_commits
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
LEFT JOIN log_ends e ON e.lane = c.lane AND e.`partition` = c.`partition`
WHERE c.outcome <> 'fail' AND c.`offset` > COALESCE(e.last, -1) + 1
