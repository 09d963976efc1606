-- Two members of one generation processed records of a partition side by side: each its first no later than the other
-- its last. With KIP-848, where each member has its own epoch, 0 once it is expelled: a commit of the one that had the
-- partition first, in an earlier epoch, and had not given it back, was acknowledged, though sent after the other one's first record.
-- unit: pairs of assignments
-- row: the first offset of the later one
WITH asked AS (
  SELECT e.judged, e.`group`, e.consumer, e.`partition`, MAX(e.invoke_ns) AS asked_ns
  FROM effects e
  JOIN group_assignments a USING (judged, `group`, consumer, `partition`)
  WHERE a.by_epoch = 1 AND e.outcome = 'ok' AND (a.end_ns IS NULL OR e.invoke_ns < a.end_ns)
  GROUP BY e.judged, e.`group`, e.consumer, e.`partition`
), spans AS (
  SELECT
    a.judged, a.`group`, a.`partition`, a.generation, a.member, a.consumer, a.start_ns, MIN(p.poll_ns) AS first_ns,
    MAX(p.poll_ns) AS last_ns, MIN(p.`offset`) AS began, MAX(c.asked_ns) AS asked_ns
  FROM group_assignments a
  JOIN processed p USING (judged, `group`, consumer, `partition`)
  LEFT JOIN asked c USING (judged, `group`, consumer, `partition`)
  WHERE a.generation >= a.by_epoch
  GROUP BY a.judged, a.`group`, a.`partition`, a.generation, a.member, a.consumer, a.start_ns
)
SELECT
  b.judged AS lane, b.`partition`, b.began AS `offset`,
  a.consumer || ' and ' || b.consumer || CASE WHEN a.generation = b.generation THEN ' in generation ' || b.generation
    ELSE ', in epochs ' || a.generation || ' and ' || b.generation END AS cause
FROM spans a
JOIN spans b
  ON b.judged = a.judged AND b.`group` = a.`group` AND b.`partition` = a.`partition` AND a.member <> b.member
  AND (a.start_ns < b.start_ns OR (a.start_ns = b.start_ns AND a.consumer < b.consumer))
  AND (b.generation = a.generation OR (b.generation > a.generation AND a.asked_ns > b.first_ns))
WHERE a.asked_ns > b.first_ns OR (a.first_ns <= b.last_ns AND b.first_ns <= a.last_ns)
