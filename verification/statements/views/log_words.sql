-- The words (32 offsets of a partition) of which records of the log or markers of transactions take offsets: how many
-- different ones (`taken`), the first and the last. Of the records alone: how many different offsets, the last of them, how
-- many records (`stored`), the sum of their hashes; of those that have to be acknowledged there, number and hashes
-- (`counted`): all but those of clean blocks (`doubtful_blocks`), whose place nobody was told.
--
-- keep: yes
SELECT
  lane, `partition`, word, MIN(`offset`) AS first, MAX(`offset`) AS last, BIT_COUNT(BIT_OR(bit)) AS taken,
  BIT_COUNT(BIT_OR(is_record * bit)) AS offsets, MAX(CASE WHEN is_record = 1 THEN `offset` END) AS log_end,
  SUM(is_record) AS stored, SUM(hash) AS content,
  SUM(is_counted) AS counted, SUM(CASE WHEN is_counted = 1 THEN hash ELSE 0 END) AS counted_content
FROM (
  SELECT
    g.lane, g.`partition`, g.`offset`, g.`offset` DIV 32 AS word, 1 AS is_record,
    SHIFTLEFT(CAST(1 AS BIGINT), CAST((g.`offset` % 32 + 32) % 32 AS INT)) AS bit,
    XXHASH64(l.salt, g.`offset`, g.producer_id, g.seq) AS hash,
    CASE WHEN l.unplaced = 1 AND b.block IS NULL THEN 0 ELSE 1 END AS is_counted
  FROM log g
  JOIN lanes l ON l.lane = g.lane
  LEFT JOIN doubtful_blocks b ON b.lane = g.lane AND b.producer_id = g.producer_id AND b.block = g.seq DIV 32
  UNION ALL
  SELECT
    lane, `partition`, `offset`, `offset` DIV 32, 0,
    SHIFTLEFT(CAST(1 AS BIGINT), CAST((`offset` % 32 + 32) % 32 AS INT)), CAST(0 AS BIGINT), 0
  FROM replicas
  WHERE kind IN ('commit', 'abort')
) q
GROUP BY lane, `partition`, word
