-- The records that a compacted log lacks, though compaction can't have removed them (`is_lost`: 1), or nobody can say (null).
--
-- It may have removed what is before (`past`) a record of the same key in the log, or before an old tombstone that is gone,
-- and that tombstone (`lanes.kept_ns`; `untold`: if it was old). A record is where it was acknowledged, or else where it was
-- read; such a tombstone otherwise anywhere in its partition. Records of transactions that are not known to be committed may
-- go, and those of aborted ones remove nothing. Whatever has no key may have removed anything.
WITH keyed AS (
  SELECT k.*, l.kept_ns, CASE WHEN k.acknowledged THEN k.`offset` + 1 ELSE 9223372036854775807 END AS after
  FROM known k
  JOIN lanes l ON l.lane = k.lane AND l.compacted = 1 AND l.final_log = 1
  WHERE COALESCE(k.ended, '') <> 'aborted'
), kept AS (
  SELECT k.lane, g.`partition`, k.key, g.`offset` FROM keyed k JOIN log g USING (lane, producer_id, seq)
), removers AS (
  SELECT lane, `partition`, key, MAX(past) AS past, MAX(untold) AS untold
  FROM (
    SELECT lane, `partition`, key, `offset` AS past, CAST(NULL AS BIGINT) AS untold FROM kept
    UNION ALL
    SELECT
      lane, `partition`, key, CASE WHEN invoke_ns < kept_ns THEN after END, CASE WHEN kept_ns IS NULL THEN after END
    FROM keyed
    LEFT ANTI JOIN log USING (lane, producer_id, seq)
    LEFT ANTI JOIN kept w
      ON w.lane = keyed.lane AND w.`partition` = keyed.`partition` AND w.key = keyed.key AND keyed.acknowledged
      AND w.`offset` < keyed.`offset`
    WHERE tombstone = 1 AND outcome <> 'fail'
  ) q
  GROUP BY lane, `partition`, key
)
SELECT
  r.lane, r.producer_id, r.seq,
  CASE WHEN s.lane IS NULL AND r.key IS NOT NULL AND COALESCE(m.untold, 0) <= r.place.`offset` THEN 1 END AS is_lost
FROM (
  SELECT *, CASE WHEN acknowledged THEN STRUCT(`partition`, `offset`) ELSE first_read END AS place
  FROM records
  WHERE first_stored IS NULL AND (`transaction` IS NULL OR ended = 'committed')
) r
JOIN lanes l ON l.lane = r.lane AND l.compacted = 1 AND l.final_log = 1
LEFT JOIN removers m ON m.lane = r.lane AND m.`partition` = r.place.`partition` AND m.key = r.key
LEFT JOIN (
  SELECT DISTINCT lane
  FROM keyed
  WHERE outcome <> 'fail' AND (key IS NULL OR (tombstone = 1 AND `partition` IS NULL))
) s ON s.lane = r.lane
WHERE COALESCE(m.past, 0) <= COALESCE(r.place.`offset`, 0)
