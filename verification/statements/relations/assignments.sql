-- of: assignments; rests: of_groups
SELECT
  a.lane, a.consumer, a.member, a.`group`, a.`partition`,
  a.`group` IS NOT NULL AND g.lane IS NULL AS `of a group that no lane has`,
  a.generation < 0 OR (a.generation < a.earlier AND NOT (a.generation = 0 AND g.by_epoch = 1))
    AS `a generation below 0, or before an earlier one of its member`,
  a.`group` IS NOT NULL AND a.generation IS NOT NULL AND a.start_ns < a.before_ns
    AS `of one partition to a member that still has it`,
  a.`group` IS NOT NULL AND a.first_isolation < a.last_isolation AS `of one group with several isolation levels`,
  a.first_group < a.last_group AS `of one member to several groups`,
  a.is_ambiguous
    AS `of one consumer to several members, groups, generations or isolation levels` -- rests: of_reads, of_groups
FROM (
  SELECT
    *,
    LAG(generation) IGNORE NULLS OVER (PARTITION BY lane, `group`, member ORDER BY start_ns, generation) AS earlier,
    LAG(COALESCE(end_ns, 9223372036854775807)) OVER (
      PARTITION BY `group`, member, generation, `partition` ORDER BY start_ns, consumer
    ) AS before_ns,
    MIN(isolation) OVER of_group AS first_isolation, MAX(isolation) OVER of_group AS last_isolation,
    MIN(`group`) OVER of_member AS first_group, MAX(`group`) OVER of_member AS last_group,
    MIN(member) OVER of_consumer < MAX(member) OVER of_consumer
      OR MIN(`group`) OVER of_consumer < MAX(`group`) OVER of_consumer
      OR MIN(generation) OVER of_consumer < MAX(generation) OVER of_consumer
      OR MIN(isolation) OVER of_consumer < MAX(isolation) OVER of_consumer AS is_ambiguous
  FROM assignments
  WINDOW of_group AS (PARTITION BY lane, `group`), of_member AS (PARTITION BY lane, member),
    of_consumer AS (PARTITION BY lane, consumer)
) a
LEFT JOIN `groups` g ON g.`group` = a.`group` AND g.lane = a.lane
