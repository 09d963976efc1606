-- An assignment processed a lower offset than the last commit acknowledged before it began, or less is committed in the
-- end than the last acknowledged commit; not if another commit at or below that may have taken effect later, nor by an
-- assignment of an older generation than the commit.
-- unit: commits
-- row: the committed offset
WITH generations AS (
  SELECT judged, `group`, consumer, `partition`, MAX(generation) AS generation
  FROM group_assignments
  GROUP BY judged, `group`, consumer, `partition`
)
SELECT
  judged AS lane, `partition`, known.`offset` AS `offset`,
  'committed by ' || known.consumer || '; ' || MIN(
    CASE
      WHEN what = 'start' THEN consumer || ' began at ' || shown
      ELSE 'in the end, ' || shown || ' is committed'
    END
  ) AS cause
FROM (
  SELECT p.*
  FROM prior_commits p
  LEFT JOIN generations a
    ON a.judged = p.judged AND a.`group` = p.`group` AND a.consumer = p.consumer AND a.`partition` = p.`partition`
  LEFT JOIN generations b
    ON b.judged = p.judged AND b.`group` = p.`group` AND b.consumer = p.known.consumer AND b.`partition` = p.`partition`
  LEFT ANTI JOIN effects o
    ON o.judged = p.judged AND o.`group` = p.`group` AND o.`partition` = p.`partition` AND o.outcome <> 'fail'
    AND o.`offset` <= p.shown AND (o.`offset` <> p.known.`offset` OR o.invoke_ns <> p.known.invoke_ns)
    AND (o.outcome <> 'ok' OR o.complete_ns IS NULL OR o.complete_ns > p.known.invoke_ns)
    AND (p.until_ns IS NULL OR o.invoke_ns < p.until_ns)
  WHERE p.what <> 'commit' AND p.shown < p.known.`offset`
    AND NOT (p.what = 'start' AND COALESCE(a.generation < b.generation, FALSE))
) q
GROUP BY judged, `group`, `partition`, known
