-- By partition the contents of the log (`broker` null) and of each replica below `bounds`: how many records, and two sums
-- of their hashes, which nobody can foresee (`lanes.salt`).
SELECT
  lane, `partition`, broker, COUNT_IF(is_below) AS n,
  SUM(CASE WHEN is_below THEN hash % 4294967291 ELSE 0 END) AS low,
  SUM(CASE WHEN is_below THEN hash % 4294967279 ELSE 0 END) AS high
FROM (
  SELECT
    r.lane, r.`partition`, r.broker, r.`offset` < b.bound AS is_below,
    XXHASH64(l.salt, r.`offset`, r.producer_id, r.seq) AS hash
  FROM (
    SELECT lane, `partition`, broker, `offset`, producer_id, seq FROM copies
    UNION ALL
    SELECT lane, `partition`, CAST(NULL AS INT), `offset`, producer_id, seq FROM log
  ) r
  JOIN bounds b USING (lane, `partition`)
  JOIN lanes l USING (lane)
) q
GROUP BY lane, `partition`, broker
