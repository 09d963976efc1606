-- Two members of one generation processed records of a partition side by side: each its first no later than the other
-- its last.
-- unit: pairs of assignments
-- row: the first offset of the later one
WITH spans AS (
  SELECT
    a.judged, a.`group`, a.`partition`, a.generation, a.member, a.consumer,
    ROW_NUMBER() OVER (
      PARTITION BY a.judged, a.`group`, a.`partition`, a.generation ORDER BY a.start_ns, a.consumer, a.member
    ) AS number,
    p.first_ns, p.last_ns, p.began
  FROM group_assignments a
  JOIN (
    SELECT
      judged, `group`, consumer, `partition`, MIN(poll_ns) AS first_ns, MAX(poll_ns) AS last_ns, MIN(`offset`) AS began
    FROM processed
    GROUP BY judged, `group`, consumer, `partition`
  ) p USING (judged, `group`, consumer, `partition`)
  WHERE a.generation IS NOT NULL
)
SELECT
  b.judged AS lane, b.`partition`, b.began AS `offset`,
  a.consumer || ' and ' || b.consumer || ' in generation ' || b.generation AS cause
FROM spans a
JOIN spans b
  ON b.judged = a.judged AND b.`group` = a.`group` AND b.`partition` = a.`partition` AND b.generation = a.generation
  AND b.number > a.number
WHERE a.member <> b.member AND a.first_ns <= b.last_ns AND b.first_ns <= a.last_ns
