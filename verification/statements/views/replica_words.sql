-- What each replica holds of each word, 32 offsets of a partition: how many rows, how many different offsets, the sum of
-- the rows' hashes, the first and the last leader epoch.
SELECT
  r.lane, r.`partition`, r.broker, r.`offset` DIV 32 AS word, COUNT(*) AS n,
  BIT_COUNT(BIT_OR(SHIFTLEFT(CAST(1 AS BIGINT), CAST(r.`offset` & 31 AS INT)))) AS offsets,
  SUM(XXHASH64(XXHASH64(l.salt, r.leader_epoch, r.producer_id, r.seq), r.`offset`, COALESCE(r.kind, 'data'), 0)) AS content,
  MIN(r.leader_epoch) AS first_epoch, MAX(r.leader_epoch) AS last_epoch
FROM replicas r
JOIN lanes l USING (lane)
GROUP BY r.lane, r.`partition`, r.broker, r.`offset` DIV 32
