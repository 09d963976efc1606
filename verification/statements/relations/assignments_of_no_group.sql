-- of no group, though it may be a member's
--
-- A reader beside a group has no generation, is no member of one, and is the only one of its isolation level that neither
-- reads within transactions nor comes and goes.
-- of: assignments; rests: of_groups
SELECT g.judged AS lane, a.consumer, a.`partition`
FROM `groups` g
JOIN assignments a ON a.lane = g.lane AND a.`group` IS NULL
JOIN (
  SELECT lane, isolation, COUNT(DISTINCT member) AS members
  FROM assignments
  LEFT ANTI JOIN (SELECT lane, consumer FROM consumed WHERE reading_transaction IS NOT NULL) c USING (lane, consumer)
  LEFT ANTI JOIN passing p USING (lane, consumer)
  WHERE `group` IS NULL
  GROUP BY lane, isolation
) o ON o.lane = a.lane AND o.isolation = a.isolation
LEFT JOIN (SELECT DISTINCT lane, member FROM assignments WHERE `group` IS NOT NULL) m
  ON m.lane = a.lane AND m.member = a.member
LEFT JOIN (
  SELECT DISTINCT r.lane
  FROM reads_by_partition r
  LEFT ANTI JOIN assignments k USING (lane, consumer)
) s ON s.lane = a.lane
WHERE a.generation IS NOT NULL OR m.member IS NOT NULL OR o.members > 1 OR s.lane IS NOT NULL
