-- of one member to several groups
-- of: assignments; rests: of_groups
SELECT MIN(lane) AS lane, member, COUNT(*) AS n
FROM assignments
WHERE `group` IS NOT NULL
GROUP BY member
HAVING COUNT(DISTINCT `group`) > 1
