-- A send() of the record's producer had to be repeated while that of the record was open. What was acknowledged at a wrong
-- offset has that of one other record of its producer.
--
-- kafkajs-1005: with idempotence, a record that was written twice has lent its number: another one of its producer was
-- acknowledged where it is. sarama-2619: a record was overtaken by one of its partition that was sent again; the record
-- after a descent is the one that was overtaken. sarama-3354: of a record's partition, what waited behind repetitions was
-- acknowledged at the offset of another record.
SELECT s.number, s.defect
FROM suspected s
LEFT JOIN (
  SELECT g.lane, g.`partition`, g.`offset`, MIN(g.producer_id) AS producer_id, MIN(g.seq) AS seq
  FROM log g
  LEFT SEMI JOIN suspected s USING (lane, `partition`, `offset`)
  GROUP BY g.lane, g.`partition`, g.`offset`
  HAVING COUNT(*) = 1
) h
  ON h.lane = s.lane AND h.`partition` = s.`partition` AND h.`offset` = s.`offset` AND h.producer_id = s.producer_id
  AND h.seq <> s.seq
LEFT JOIN (
  SELECT DISTINCT g.lane, g.producer_id, g.seq
  FROM log g
  JOIN produced p USING (lane, producer_id, `partition`, `offset`)
  WHERE p.seq <> g.seq AND p.outcome = 'ok'
) b ON b.lane = s.lane AND b.producer_id = s.producer_id AND b.seq = s.seq
WHERE s.rule = 'repeated'
  AND (s.defect NOT IN ('sarama-2619', 'sarama-3354') OR s.of_partition <=> s.`partition`)
  AND (s.defect <> 'sarama-2619' OR s.anomaly = 'reordered')
  AND (s.defect <> 'sarama-3354' OR s.anomaly IN ('lost_write', 'inconsistent_offset', 'offset_mismatch'))
  AND (s.anomaly NOT IN ('lost_write', 'inconsistent_offset', 'offset_mismatch') OR h.seq IS NOT NULL)
  AND (s.defect <> 'kafkajs-1005' OR s.anomaly <> 'duplicate' OR b.seq IS NOT NULL)
