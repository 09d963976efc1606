-- The markers of transactions in the log, by place and producer: those of a replica below the high watermark that its
-- broker knows (without one, below `bounds`), and those that every replica of the partition has. A replica that was
-- left behind may hold others, which no leader has. Of words in which all replicas have the same, one replica is read.
SELECT r.lane, r.`partition`, r.`offset`, r.producer_id, r.kind
FROM replicas r
JOIN (SELECT lane, `partition`, MIN(broker) AS broker FROM epochs GROUP BY lane, `partition`) e
  ON e.lane = r.lane AND e.`partition` = r.`partition` AND e.broker = r.broker
LEFT ANTI JOIN differing_words w ON w.lane = r.lane AND w.`partition` = r.`partition` AND w.word = r.`offset` DIV 32
WHERE r.kind IN ('commit', 'abort')
UNION ALL
SELECT r.lane, r.`partition`, r.`offset`, r.producer_id, MAX(r.kind)
FROM replicas r
LEFT SEMI JOIN differing_words w ON w.lane = r.lane AND w.`partition` = r.`partition` AND w.word = r.`offset` DIV 32
JOIN (SELECT lane, `partition`, COUNT(DISTINCT broker) AS replicas FROM epochs GROUP BY lane, `partition`) e
  USING (lane, `partition`)
LEFT JOIN bounds b USING (lane, `partition`)
LEFT JOIN checkpoints c USING (lane, `partition`, broker)
WHERE r.kind IN ('commit', 'abort')
GROUP BY r.lane, r.`partition`, r.`offset`, r.producer_id, e.replicas
HAVING MAX(COALESCE(c.high_watermark, b.bound)) > r.`offset` OR COUNT(DISTINCT r.broker) = e.replicas
