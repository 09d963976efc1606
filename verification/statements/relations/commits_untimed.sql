-- acknowledged, without a time at which it was
-- of: commits; rests: of_commits
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
WHERE c.outcome = 'ok' AND c.complete_ns IS NULL AND c.`transaction` IS NULL
