-- of one partition to a member that still has it
-- of: assignments; rests: of_groups
SELECT lane, member, `partition`
FROM (
  SELECT
    lane, member, `partition`, start_ns,
    LAG(COALESCE(end_ns, 9223372036854775807)) OVER (
      PARTITION BY `group`, member, generation, `partition` ORDER BY start_ns, consumer
    ) AS before_ns
  FROM assignments
  WHERE `group` IS NOT NULL AND generation IS NOT NULL
) a
WHERE start_ns < before_ns
