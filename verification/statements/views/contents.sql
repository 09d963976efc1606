-- By partition the contents of the log (`broker` null) and of each replica below `bounds`: how many records, and the sum of
-- their hashes, which nobody can foresee (`lanes.salt`). Rows are read only of words on both sides of the bound.
WITH held AS (
  SELECT h.*, b.bound
  FROM (
    SELECT lane, `partition`, broker, word, first, last, records, record_content FROM replica_words WHERE records > 0
    UNION ALL
    SELECT lane, `partition`, NULL, word, first, last, stored, content FROM log_words WHERE stored > 0
  ) h
  JOIN bounds b USING (lane, `partition`)
)
SELECT lane, `partition`, broker, SUM(n) AS n, SUM(content) AS content
FROM (
  SELECT
    lane, `partition`, broker, CASE WHEN last < bound THEN records ELSE 0 END AS n,
    CASE WHEN last < bound THEN record_content ELSE 0 END AS content
  FROM held
  UNION ALL
  SELECT r.lane, r.`partition`, r.broker, 1, XXHASH64(l.salt, r.`offset`, r.producer_id, r.seq)
  FROM (
    SELECT lane, `partition`, broker, `offset`, producer_id, seq FROM copies
    UNION ALL
    SELECT lane, `partition`, CAST(NULL AS INT), `offset`, producer_id, seq FROM log
  ) r
  JOIN (SELECT DISTINCT lane, `partition`, broker, word, bound FROM held WHERE last >= bound AND first < bound) h
    ON h.lane = r.lane AND h.`partition` = r.`partition` AND h.broker <=> r.broker AND h.word = r.`offset` DIV 32
    AND r.`offset` < h.bound
  JOIN lanes l ON l.lane = r.lane
) q
GROUP BY lane, `partition`, broker
