-- By share group and partition the first start offset that was told, or a lower one given, and how far the group was `past`
-- records at the last report: to the start offset, and without a lag past what was acknowledged before, or given and in the log.
--
-- What the share coordinator has written last trails by the acknowledgements that it was written with.
SELECT
  q.lane, q.`group`, q.`partition`, LEAST(q.earliest.`offset`, MIN(CASE WHEN p.given = 1 THEN p.`offset` END)) AS first,
  GREATEST(
    q.latest.`offset`,
    COALESCE(MAX(CASE WHEN q.latest.lag = 0 AND p.ns < q.latest.invoke_ns THEN p.`offset` + 1 END), 0)
  ) AS past
FROM (
  SELECT
    r.lane, r.`group`, r.`partition`, MIN(STRUCT(r.complete_ns, r.`offset`)) AS earliest,
    MAX(STRUCT(r.invoke_ns, r.`offset`, COALESCE(r.lag, -1) AS lag)) AS latest
  FROM share_starts r
  JOIN shares s USING (lane, `group`)
  GROUP BY r.lane, r.`group`, r.`partition`
) q
LEFT JOIN (
  SELECT lane, `partition`, `offset`, complete_ns AS ns, 0 AS given FROM produced WHERE outcome = 'ok'
  UNION ALL
  SELECT lane, `partition`, `offset`, delivered_ns, 1
  FROM deliveries
  LEFT SEMI JOIN log USING (lane, `partition`, `offset`, producer_id, seq)
) p ON p.lane = q.lane AND p.`partition` = q.`partition`
GROUP BY q.lane, q.`group`, q.`partition`, q.earliest, q.latest
