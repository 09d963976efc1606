-- What became of each record in the log of a transactional lane: `commit` or `abort`, as the next marker of the same
-- transactional id after it says; null if there is none. That marker decides what read_committed consumers are given,
-- whatever the producer learned. `writer`: the lowest producer of that id, since incarnations share its markers.
SELECT lane, `partition`, `offset`, producer_id, seq, fate
FROM (
  SELECT
    q.*,
    LAST_VALUE(q.kind) IGNORE NULLS OVER (
      PARTITION BY q.lane, q.`partition`, COALESCE(w.writer, q.producer_id)
      ORDER BY q.`offset` DESC, q.is_record DESC, q.kind
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS fate
  FROM (
    SELECT lane, `partition`, `offset`, producer_id, CAST(NULL AS BIGINT) AS seq, kind, 0 AS is_record FROM markers
    UNION ALL
    SELECT lane, `partition`, `offset`, producer_id, seq, CAST(NULL AS STRING), 1 FROM log
  ) q
  JOIN lanes l ON l.lane = q.lane AND l.is_transactional = 1
  LEFT JOIN (
    SELECT lane, producer_id, MIN(writer) AS writer
    FROM (
      SELECT lane, producer_id, MIN(producer_id) OVER (PARTITION BY lane, transactional_id) AS writer FROM transactions
    ) t
    GROUP BY lane, producer_id
  ) w ON w.lane = q.lane AND w.producer_id = q.producer_id
) q
WHERE is_record = 1
