-- An assignment processed a lower offset than the last commit acknowledged before it began, or less is committed in the
-- end than the last acknowledged commit; not if another commit of the offset from which it went on may have taken effect
-- later, nor by an assignment of an older generation than the commit.
-- unit: commits
-- row: the committed offset
WITH generations AS (
  SELECT judged, `group`, consumer, `partition`, MAX(generation) AS generation
  FROM group_assignments
  GROUP BY judged, `group`, consumer, `partition`
)
SELECT
  p.judged AS lane, p.`partition`, p.known.`offset` AS `offset`,
  'committed by ' || p.known.consumer || '; ' || MIN(
    CASE
      WHEN p.what = 'start' THEN p.consumer || ' began at ' || p.shown
      ELSE 'in the end, ' || p.shown || ' is committed'
    END
  ) AS cause
FROM behind p
LEFT JOIN generations a
  ON a.judged = p.judged AND a.`group` = p.`group` AND a.consumer = p.consumer AND a.`partition` = p.`partition`
LEFT JOIN generations b
  ON b.judged = p.judged AND b.`group` = p.`group` AND b.consumer = p.known.consumer AND b.`partition` = p.`partition`
WHERE p.what <> 'commit' AND NOT (p.what = 'start' AND COALESCE(a.generation < b.generation, FALSE))
GROUP BY p.judged, p.`group`, p.`partition`, p.known
