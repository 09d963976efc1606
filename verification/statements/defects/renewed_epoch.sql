-- The outcome of the record was in doubt when its producer renewed its epoch (for KAFKA-14397: when a record of the same
-- partition failed), and each copy on a broker stands in a later producer epoch than the copy before it.
--
-- Some broker has to hold every copy that the log has.
WITH placed AS (
  SELECT DISTINCT g.lane, g.producer_id, g.seq, g.`partition`, g.`offset`
  FROM log g
  LEFT SEMI JOIN suspected s USING (lane, producer_id, seq)
), whole AS (
  SELECT c.lane, c.producer_id, c.seq
  FROM copies c
  JOIN placed p USING (lane, producer_id, seq, `partition`, `offset`)
  JOIN (SELECT lane, producer_id, seq, COUNT(*) AS n FROM placed GROUP BY lane, producer_id, seq) t
    USING (lane, producer_id, seq)
  WHERE t.n > 1
  GROUP BY c.lane, c.producer_id, c.seq, c.broker, c.`partition`
  HAVING COUNT(DISTINCT c.`offset`) = MAX(t.n)
), unordered AS (
  SELECT lane, producer_id, seq
  FROM (
    SELECT
      c.lane, c.producer_id, c.seq, c.producer_epoch,
      LAG(c.producer_epoch) OVER (
        PARTITION BY c.lane, c.producer_id, c.seq, c.broker, c.`partition` ORDER BY c.`offset`, c.producer_epoch
      ) AS previous
    FROM copies c
    LEFT SEMI JOIN suspected s USING (lane, producer_id, seq)
  ) q
  WHERE producer_epoch IS NULL OR producer_epoch < 0 OR producer_epoch <= previous
)
SELECT s.number, s.defect
FROM suspected s
LEFT SEMI JOIN whole w USING (lane, producer_id, seq)
LEFT ANTI JOIN unordered u USING (lane, producer_id, seq)
WHERE s.rule = 'renewed_epoch' AND s.anomaly = 'duplicate'
  AND (s.defect <> 'KAFKA-14397' OR s.of_partition <=> s.`partition`)
