-- An assignment processed a lower offset than the last commit acknowledged before it began, or less is committed in the
-- end than the last acknowledged commit; not if another commit of the offset from which it went on may have taken effect
-- later, nor by an assignment of an older generation than the commit. With `reset: latest` also one that began higher, past
-- a record that nobody processed, though no other member may have committed more.
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
FROM (
  SELECT judged, `group`, `partition`, what, consumer, shown, known FROM behind WHERE what <> 'commit'
  UNION ALL
  SELECT p.judged, p.`group`, p.`partition`, p.what, p.consumer, p.shown, p.known
  FROM prior_commits p
  JOIN `groups` g ON g.judged = p.judged AND g.`group` = p.`group` AND g.at_end = 1
  LEFT SEMI JOIN passed r
    ON r.judged = p.judged AND r.`group` = p.`group` AND r.`partition` = p.`partition` AND NOT r.is_processed
    AND r.`offset` >= p.known.`offset` AND r.`offset` < p.shown
  LEFT ANTI JOIN effects o
    ON o.judged = p.judged AND o.`group` = p.`group` AND o.`partition` = p.`partition` AND o.outcome <> 'fail'
    AND o.`offset` > p.known.`offset` AND o.consumer <> p.consumer AND o.invoke_ns < p.until_ns
  WHERE p.what = 'start'
) p
LEFT JOIN generations a USING (judged, `group`, consumer, `partition`)
WHERE p.what = 'end' OR NOT COALESCE(a.generation < p.known.generation, FALSE)
GROUP BY p.judged, p.`group`, p.`partition`, p.known
