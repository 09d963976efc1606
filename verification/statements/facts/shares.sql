-- By share group its deliveries, members, and acknowledgements by outcome; `unasked`: deliveries of which nobody knows when
-- they were asked for; `doubled`: rows that repeat another one; `undrained`: partitions of the log whose last record the
-- group is not past; `reported`: partitions whose start offset was reported; `letters`: dead letters.
SELECT
  s.lane, COALESCE(d.n, 0) AS deliveries, COALESCE(d.members, 0) AS members, COALESCE(d.accepted, 0) AS accepted,
  COALESCE(d.released, 0) AS released, COALESCE(d.rejected, 0) AS rejected, COALESCE(d.refused, 0) AS refused,
  COALESCE(d.in_doubt, 0) AS in_doubt, COALESCE(d.unasked, 0) AS unasked, COALESCE(d.doubled, 0) AS doubled,
  COALESCE(p.reported, 0) AS reported, COALESCE(e.undrained, 0) AS undrained, COALESCE(t.letters, 0) AS letters
FROM shares s
LEFT JOIN (
  SELECT
    lane, COUNT(*) AS n, COUNT(DISTINCT member) AS members,
    COUNT_IF(outcome = 'ok' AND acknowledgement = 'accept') AS accepted,
    COUNT_IF(outcome = 'ok' AND acknowledgement = 'release') AS released,
    COUNT_IF(outcome = 'ok' AND acknowledgement = 'reject') AS rejected, COUNT_IF(outcome = 'fail') AS refused,
    COUNT_IF(outcome = 'info') AS in_doubt, COUNT_IF(asked_ns IS NULL) AS unasked,
    COUNT(*) - COUNT(DISTINCT STRUCT(member, `partition`, `offset`, delivered_ns)) AS doubled
  FROM deliveries
  GROUP BY lane
) d USING (lane)
LEFT JOIN (SELECT lane, COUNT(*) AS letters FROM dead_letters GROUP BY lane) t ON t.lane = s.lane
LEFT JOIN (SELECT lane, COUNT(*) AS reported FROM share_spans GROUP BY lane) p ON p.lane = s.lane
LEFT JOIN (
  SELECT g.lane, COUNT(*) AS undrained
  FROM (SELECT lane, `partition`, MAX(`offset`) AS last FROM log GROUP BY lane, `partition`) g
  LEFT JOIN share_spans p ON p.lane = g.lane AND p.`partition` = g.`partition`
  WHERE p.past IS NULL OR p.past <= g.last
  GROUP BY g.lane
) e ON e.lane = s.lane
