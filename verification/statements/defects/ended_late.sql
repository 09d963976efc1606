-- KAFKA-17754: the record's transaction was open when an EndTxn of its transactional id came late, and on every broker the
-- next marker of that id after the record is of the kind that this EndTxn asked for.
--
-- Such a commit shows what is to be aborted; such an abort takes each record that the transaction lacks.
WITH ended AS (
  SELECT
    s.number, s.defect, s.ts_ns, s.lane, s.producer_id, COALESCE(r.seq, s.seq) AS seq,
    s.transactional_id,
    CASE WHEN s.commits = 1 THEN 'commit' ELSE 'abort' END AS kind
  FROM suspected s
  JOIN transactions t USING (lane, producer_id, `transaction`)
  LEFT JOIN lacking r
    ON r.lane = s.lane AND r.producer_id = s.producer_id AND r.`transaction` = s.`transaction` AND s.commits = 0
  WHERE s.rule = 'ended_late' AND t.transactional_id = s.transactional_id AND s.ts_ns BETWEEN t.begin_ns AND t.end_ns
    AND (s.commits = 1) = (t.outcome = 'aborted') AND (s.commits = 1) = (s.anomaly = 'aborted_read')
), ends AS (
  SELECT DISTINCT r.lane, r.broker, r.`partition`, r.`offset`, r.kind, t.transactional_id
  FROM replicas r
  JOIN transactions t USING (lane, producer_id)
  WHERE r.kind IN ('commit', 'abort')
)
SELECT number, defect
FROM (
  SELECT e.number, e.defect, e.ts_ns, e.kind, MIN(STRUCT(m.`offset`, m.kind)) AS next
  FROM ended e
  LEFT JOIN copies c USING (lane, producer_id, seq)
  LEFT JOIN ends m
    ON m.lane = e.lane AND m.transactional_id = e.transactional_id AND m.broker = c.broker AND m.`partition` = c.`partition`
    AND m.`offset` > c.`offset`
  GROUP BY e.number, e.defect, e.ts_ns, e.kind, e.seq, c.broker, c.`partition`, c.`offset`
) q
GROUP BY number, defect, ts_ns
HAVING COUNT(*) = COUNT_IF(next.kind = kind)
