-- Below the lowest high watermark (without checkpoints: the lowest log end offset) two replicas hold different records,
-- markers or leader epochs at one offset.
--
-- A marker is of producer -1 for a broker whose log no longer shows who wrote it.
-- unit: (partition, offset)
-- row: the highest of them; the cause names both
-- needs: replicas
SELECT
  lane, `partition`, `offset`, b.producer_id AS producer_id, b.seq AS seq,
  'epoch ' || a.leader_epoch || ': ' || a.kind || ' of producer ' || a.producer_id || ', seq ' || a.seq || '; epoch '
  || b.leader_epoch || ': ' || b.kind || ' of producer ' || b.producer_id || ', seq ' || b.seq AS cause
FROM (
  SELECT
    r.lane, r.`partition`, r.`offset`,
    MIN(STRUCT(r.leader_epoch, r.producer_id, r.seq, COALESCE(r.kind, 'data') AS kind)) AS a,
    MAX(STRUCT(r.leader_epoch, r.producer_id, r.seq, COALESCE(r.kind, 'data') AS kind)) AS b
  FROM suspect_replicas r
  JOIN (
    SELECT lane, `partition`, MIN(log_end) AS log_end
    FROM (SELECT lane, `partition`, broker, MAX(last) + 1 AS log_end FROM epochs GROUP BY lane, `partition`, broker) q
    GROUP BY lane, `partition`
  ) e USING (lane, `partition`)
  LEFT JOIN (
    SELECT lane, `partition`, MIN(high_watermark) AS high_watermark FROM checkpoints GROUP BY lane, `partition`
  ) c USING (lane, `partition`)
  WHERE r.`offset` < COALESCE(c.high_watermark, e.log_end)
  GROUP BY r.lane, r.`partition`, r.`offset`
) q
WHERE a <> b AND NOT (a.producer_id = -1 AND a.kind <> 'data' AND a.kind = b.kind AND a.leader_epoch = b.leader_epoch)
