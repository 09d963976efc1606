-- By group and partition: the first and the last offset that members processed, the first that one committed, the last
-- commit that was acknowledged, and what was committed in the end; null if there is none. `past`: the offset that the
-- group has committed: in the end, or if that is not known, at most.
SELECT
  q.judged, q.`group`, q.`partition`,
  MAX(q.processed) AS processed_to, MAX(q.acknowledged) AS acknowledged, MAX(q.final) AS final,
  LEAST(COALESCE(MIN(q.processed), MIN(q.committed)), COALESCE(MIN(q.committed), MIN(q.processed))) AS first,
  COALESCE(MAX(q.final), MAX(q.acknowledged)) AS past
FROM (
  SELECT
    judged, `group`, `partition`, CAST(NULL AS BIGINT) AS processed, CAST(NULL AS BIGINT) AS committed,
    CAST(NULL AS BIGINT) AS acknowledged, CAST(NULL AS BIGINT) AS final
  FROM group_assignments
  UNION ALL
  SELECT judged, `group`, `partition`, `offset`, NULL, NULL, NULL FROM processed
  UNION ALL
  SELECT
    judged, `group`, `partition`, NULL, CASE WHEN outcome <> 'fail' THEN `offset` END,
    CASE WHEN outcome = 'ok' THEN `offset` END, NULL
  FROM effects
  UNION ALL
  SELECT g.judged, g.`group`, f.`partition`, NULL, NULL, NULL, f.`offset`
  FROM `final` f
  JOIN `groups` g USING (`group`)
) q
GROUP BY q.judged, q.`group`, q.`partition`
