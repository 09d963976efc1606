-- acknowledged, with an error
-- of: commits; rests: of_commits
SELECT c.judged AS lane, c.`group`, c.`partition`, c.`offset`
FROM group_commits c
WHERE c.outcome = 'ok' AND c.error IS NOT NULL
