-- The rows of replicas/ in words (32 offsets) in which not every broker has the same records, markers and leader epochs;
-- in a small run, all.
--
-- keep: no
SELECT r.*
FROM replicas r
LEFT SEMI JOIN (
  SELECT lane, `partition`, word
  FROM (
    SELECT
      r.lane, r.`partition`, r.broker, r.`offset` DIV 32 AS word, COUNT(*) AS n,
      SUM(
        XXHASH64(XXHASH64(l.salt, r.leader_epoch, r.producer_id, r.seq), r.`offset`, COALESCE(r.kind, 'data'), 0)
      ) AS content
    FROM replicas r
    JOIN lanes l USING (lane)
    GROUP BY r.lane, r.`partition`, r.broker, r.`offset` DIV 32
  ) q
  GROUP BY lane, `partition`, word
  HAVING MIN(n) <> MAX(n) OR MIN(content) <> MAX(content)
) w ON w.lane = r.lane AND w.`partition` = r.`partition` AND w.word = r.`offset` DIV 32
