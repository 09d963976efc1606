-- of a group that no lane has
-- of: commits; rests: of_groups
SELECT c.lane, c.`group`, c.`partition`, c.`offset`
FROM commits c
LEFT ANTI JOIN `groups` g USING (`group`)
