-- No member of the group processed a record, although the committed offset is past it. A record that is yet to come
-- counts, where the group has committed an offset past the log and the markers that open transactions lack.
-- unit: identities
-- row: its lowest place
-- needs: log
SELECT
  lane, first.`partition` AS `partition`, first.`offset` AS `offset`, producer_id, seq, 'group ' || first.`group` AS cause
FROM (
  SELECT judged AS lane, producer_id, seq, MIN(STRUCT(`partition`, `offset`, `group`)) AS first
  FROM passed
  WHERE NOT is_processed
  GROUP BY judged, producer_id, seq
) q
UNION ALL
SELECT w.judged, w.`partition`, w.past - 1, NULL, NULL, 'group ' || w.`group` || ', past the end of the log'
FROM progress w
JOIN `groups` g USING (judged, `group`)
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
LEFT JOIN (
  SELECT lane, `partition`, COUNT(DISTINCT producer_id) AS markers FROM open_records GROUP BY lane, `partition`
) o USING (lane, `partition`)
WHERE w.past > COALESCE(e.last, -1) + 1 + COALESCE(o.markers, 0)
  AND l.lossless = 1 AND (l.cleaned = 0 OR e.last IS NOT NULL)
