-- What became of each record in the log of a transactional lane: `commit` or `abort`, as the next marker of the same
-- transactional id after it says; null if there is none. That marker decides what read_committed consumers are given,
-- whatever the producer learned. `writer`: the lowest producer of that id, since incarnations share its markers.
WITH writers AS (
  SELECT lane, producer_id, MIN(writer) AS writer
  FROM (
    SELECT lane, producer_id, MIN(producer_id) OVER (PARTITION BY lane, transactional_id) AS writer FROM transactions
  ) q
  GROUP BY lane, producer_id
)
SELECT lane, `partition`, `offset`, producer_id, seq, fate
FROM (
  SELECT
    *,
    LAST_VALUE(kind) IGNORE NULLS OVER (
      PARTITION BY lane, `partition`, writer ORDER BY `offset` DESC, is_record DESC
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS fate
  FROM (
    SELECT
      r.lane, r.`partition`, r.`offset`, COALESCE(w.writer, r.producer_id) AS writer, 0 AS is_record,
      MAX(r.kind) AS kind, CAST(NULL AS INT) AS producer_id, CAST(NULL AS BIGINT) AS seq
    FROM markers r
    JOIN lanes l USING (lane)
    LEFT JOIN writers w ON w.lane = r.lane AND w.producer_id = r.producer_id
    WHERE l.is_transactional = 1
    GROUP BY r.lane, r.`partition`, r.`offset`, COALESCE(w.writer, r.producer_id)
    UNION ALL
    SELECT
      g.lane, g.`partition`, g.`offset`, COALESCE(w.writer, g.producer_id), 1, CAST(NULL AS STRING), g.producer_id, g.seq
    FROM log g
    JOIN lanes l USING (lane)
    LEFT JOIN writers w ON w.lane = g.lane AND w.producer_id = g.producer_id
    WHERE l.is_transactional = 1
  ) q
) q
WHERE is_record = 1
