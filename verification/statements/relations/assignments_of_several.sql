-- of one consumer to several members, groups, generations or isolation levels
-- of: assignments; rests: of_reads, of_groups
SELECT lane, consumer, COUNT(*) AS n
FROM assignments
GROUP BY lane, consumer
HAVING COUNT(DISTINCT member) > 1 OR COUNT(DISTINCT `group`) > 1 OR COUNT(DISTINCT generation) > 1
  OR COUNT(DISTINCT isolation) > 1
