-- of one group with several isolation levels
-- of: assignments; rests: of_groups
SELECT lane, `group`, COUNT(*) AS n
FROM assignments
WHERE `group` IS NOT NULL
GROUP BY lane, `group`
HAVING COUNT(DISTINCT isolation) > 1
