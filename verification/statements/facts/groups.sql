-- By group its assignments, members and commits. `doubled`: rows of assignments/ and commits/ that repeat another one.
SELECT
  g.judged AS lane, g.`group`,
  COALESCE(a.n, 0) AS assignments, COALESCE(a.members, 0) AS members,
  COALESCE(a.without_generation, 0) AS without_generation, COALESCE(a.doubled, 0) + COALESCE(e.doubled, 0) AS doubled,
  COALESCE(p.n, 0) AS processed, COALESCE(e.acknowledged, 0) AS acknowledged, COALESCE(e.refused, 0) AS refused,
  COALESCE(e.in_doubt, 0) AS in_doubt
FROM `groups` g
LEFT JOIN (
  SELECT
    judged, `group`, COUNT(*) AS n, COUNT(DISTINCT member) AS members, COUNT_IF(generation IS NULL) AS without_generation,
    COUNT(*) - COUNT(DISTINCT STRUCT(`partition`, consumer, start_ns)) AS doubled
  FROM group_assignments
  GROUP BY judged, `group`
) a USING (judged, `group`)
LEFT JOIN (SELECT judged, `group`, COUNT(*) AS n FROM processed GROUP BY judged, `group`) p USING (judged, `group`)
LEFT JOIN (
  SELECT
    judged, `group`, COUNT_IF(outcome = 'ok') AS acknowledged, COUNT_IF(outcome = 'fail') AS refused,
    COUNT_IF(outcome = 'info') AS in_doubt,
    COUNT(*) - COUNT(DISTINCT STRUCT(`partition`, consumer, `offset`, invoke_ns)) AS doubled
  FROM effects
  GROUP BY judged, `group`
) e USING (judged, `group`)
