-- An assignment processed a lower offset than the last commit acknowledged before it began, or less is committed in the
-- end than the last acknowledged commit; not if another commit of the offset from which it went on may have taken effect
-- later, nor by an assignment of an older generation than the commit.
-- unit: commits
-- row: the committed offset
SELECT
  p.judged AS lane, p.`partition`, p.known.`offset` AS `offset`,
  'committed by ' || p.known.consumer || '; ' || MIN(
    CASE
      WHEN p.what = 'start' THEN p.consumer || ' began at ' || p.shown
      ELSE 'in the end, ' || p.shown || ' is committed'
    END
  ) AS cause
FROM behind p
LEFT JOIN generations a USING (judged, `group`, consumer, `partition`)
WHERE p.what <> 'commit' AND NOT (p.what = 'start' AND COALESCE(a.generation < p.known.generation, FALSE))
GROUP BY p.judged, p.`group`, p.`partition`, p.known
