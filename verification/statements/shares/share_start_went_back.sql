-- A start offset of the share group was asked for after a higher one had been told.
-- unit: reports
-- row: the lower offset
SELECT r.lane, r.`partition`, r.`offset`, 'told to ' || r.member || ', after ' || MAX(b.`offset`) AS cause
FROM share_starts r
JOIN share_starts b
  ON b.lane = r.lane AND b.`group` = r.`group` AND b.`partition` = r.`partition` AND b.complete_ns < r.invoke_ns
  AND b.`offset` > r.`offset`
GROUP BY r.lane, r.`group`, r.`partition`, r.member, r.`offset`, r.invoke_ns, r.complete_ns
