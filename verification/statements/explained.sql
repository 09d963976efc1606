-- The cases with their causes in words: a lost, moved, doubled or overtaken record has the first explanation of its
-- partition that covers it, `unobserved` without any; what the case itself says follows it.
--
-- A copy of a record that an idempotent producer sent in two producer epochs is explained by these. A record without an
-- offset is explained by when it was sent, one that was sent again by when it was under way; all others by what was
-- dropped after its acknowledgement, or after its sending if there is none. Which of two records at one place is the older
-- one is not known: anything that dropped the offset may explain them. When the run ended, only a retry was under way.
WITH caused AS (
  SELECT
    c.number, c.lane, c.anomaly, c.`partition`, c.`offset`, c.producer_id, c.seq,
    COALESCE(c.`partition`, s.`partition`) AS of_partition, s.invoke_ns, s.complete_ns,
    CASE
      WHEN c.anomaly = 'inconsistent_offset' THEN 0 WHEN s.outcome = 'ok' THEN s.complete_ns ELSE s.invoke_ns
    END AS known_ns,
    CASE
      WHEN c.anomaly IN ('duplicate', 'reordered') THEN 'retry' WHEN c.`offset` IS NULL THEN 'send' ELSE 'drop'
    END AS kind
  FROM cases c
  JOIN sends s USING (lane, producer_id, seq)
  WHERE c.anomaly IN (
    'lost_write', 'truncated_read', 'offset_mismatch', 'inconsistent_offset', 'duplicate', 'reordered'
  )
), explained AS (
  SELECT c.number, MIN(STRUCT(x.number, x.cause)) AS first
  FROM caused c
  JOIN explanations x ON x.lane = c.lane AND x.kind = c.kind AND x.`partition` <=> c.of_partition
  WHERE (x.until_ns IS NULL OR CASE WHEN c.kind = 'drop' THEN c.known_ns ELSE c.invoke_ns END <= x.until_ns) AND CASE c.kind
    WHEN 'drop' THEN c.`offset` >= x.first AND (x.end IS NULL OR c.`offset` < x.end)
    WHEN 'send' THEN (x.within_ns IS NULL OR x.within_ns > 0) AND c.invoke_ns >= x.since_ns
    ELSE (x.within_ns IS NULL OR c.complete_ns - c.invoke_ns < x.within_ns)
      AND (c.complete_ns IS NULL OR c.complete_ns >= x.since_ns)
  END
  GROUP BY c.number
), renewed AS (
  SELECT
    c.number,
    'producer_epoch: sent in producer epochs ' || MIN(r.producer_epoch) || ' and ' || MAX(r.producer_epoch) AS cause
  FROM caused c
  JOIN lanes l ON l.lane = c.lane AND l.idempotent = 1
  JOIN replicas r ON r.lane = c.lane AND r.producer_id = c.producer_id AND r.seq = c.seq
  WHERE c.anomaly = 'duplicate' AND r.producer_epoch >= 0
  GROUP BY c.number
  HAVING MIN(r.producer_epoch) < MAX(r.producer_epoch)
)
SELECT
  number, lane, anomaly, `partition`, `offset`, producer_id, seq, units,
  CASE
    WHEN named IS NULL THEN cause
    WHEN cause IS NULL THEN named
    WHEN named LIKE '%:%' THEN named || '; ' || cause
    ELSE named || ': ' || cause
  END AS cause
FROM (
  SELECT c.*, CASE WHEN k.number IS NOT NULL THEN COALESCE(r.cause, e.first.cause, 'unobserved') END AS named
  FROM cases c
  LEFT JOIN caused k ON k.number = c.number
  LEFT JOIN explained e ON e.number = c.number
  LEFT JOIN renewed r ON r.number = c.number
) q
