-- What each replica holds of each word, 32 offsets of a partition, by leader epoch: its rows and their hashes (`content`);
-- of the records, without markers, number and hashes as in `log_words`.
SELECT
  lane, `partition`, broker, word, leader_epoch, COUNT(*) AS n, BIT_OR(bit) AS bits, MIN(`offset`) AS first,
  MAX(`offset`) AS last, SUM(XXHASH64(hash, leader_epoch, kind, 0)) AS content,
  COUNT_IF(is_record) AS records, SUM(CASE WHEN is_record THEN hash ELSE CAST(0 AS BIGINT) END) AS record_content
FROM (
  SELECT
    r.lane, r.`partition`, r.broker, r.`offset`, r.`offset` DIV 32 AS word, r.leader_epoch, COALESCE(r.kind, 'data') AS kind,
    SHIFTLEFT(CAST(1 AS BIGINT), CAST(r.`offset` & 31 AS INT)) AS bit,
    XXHASH64(l.salt, r.`offset`, r.producer_id, r.seq) AS hash, COALESCE(r.kind NOT IN ('commit', 'abort'), TRUE) AS is_record
  FROM replicas r
  JOIN lanes l USING (lane)
) q
GROUP BY lane, `partition`, broker, word, leader_epoch
