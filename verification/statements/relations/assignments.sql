-- of: assignments; rests: of_groups
SELECT
  a.lane, a.consumer, a.member, a.`group`, a.`partition`,
  a.`group` IS NOT NULL AND g.lane IS NULL AS `of a group that no lane has`,
  a.generation < 0 OR a.generation < a.earlier AS `a generation below 0, or before an earlier one of its member`,
  a.`group` IS NOT NULL AND a.generation IS NOT NULL AND a.start_ns < a.before_ns
    AS `of one partition to a member that still has it`
FROM (
  SELECT
    *,
    LAG(generation) IGNORE NULLS OVER (PARTITION BY lane, `group`, member ORDER BY start_ns, generation) AS earlier,
    LAG(COALESCE(end_ns, 9223372036854775807)) OVER (
      PARTITION BY `group`, member, generation, `partition` ORDER BY start_ns, consumer
    ) AS before_ns
  FROM assignments
) a
LEFT JOIN `groups` g ON g.`group` = a.`group` AND g.lane = a.lane
