-- A start offset of the share group, or a record before it, was asked for after a higher one had been told.
-- unit: reports and deliveries
-- row: the lower offset
SELECT r.lane, r.`partition`, r.`offset`, r.how || r.member || ', after ' || MAX(b.`offset`) AS cause
FROM (
  SELECT lane, `group`, `partition`, `offset`, member, 'told to ' AS how, invoke_ns, complete_ns FROM share_starts
  UNION
  SELECT lane, `group`, `partition`, `offset`, member, 'given to ', asked_ns, delivered_ns FROM deliveries
) r
JOIN share_starts b
  ON b.lane = r.lane AND b.`group` = r.`group` AND b.`partition` = r.`partition` AND b.complete_ns < r.invoke_ns
  AND b.`offset` > r.`offset`
GROUP BY r.lane, r.`group`, r.`partition`, r.member, r.`offset`, r.how, r.invoke_ns, r.complete_ns
