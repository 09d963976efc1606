-- The markers of transactions in the log, by place and producer: those below the offset up to which everything is known
-- to be committed (`bounds`), and those that every replica of the partition has. A replica that was left behind may
-- still hold others, which no leader has.
SELECT r.lane, r.`partition`, r.`offset`, r.producer_id, MAX(r.kind) AS kind
FROM (
  SELECT lane, `partition`, `offset`, producer_id, broker, MAX(kind) AS kind
  FROM replicas
  WHERE kind IN ('commit', 'abort')
  GROUP BY lane, `partition`, `offset`, producer_id, broker
) r
JOIN (SELECT lane, `partition`, COUNT(DISTINCT broker) AS replicas FROM epochs GROUP BY lane, `partition`) e
  USING (lane, `partition`)
LEFT JOIN bounds b USING (lane, `partition`)
GROUP BY r.lane, r.`partition`, r.`offset`, r.producer_id, e.replicas, b.bound
HAVING r.`offset` < b.bound OR COUNT(*) = e.replicas
