-- The words (32 offsets of a partition) of which records of the log or markers of transactions take offsets: how many
-- different ones (`taken`), the first and the last. Of the records alone: how many different offsets, the last of them, how
-- many records (`stored`), the sum of their hashes; the same of those that have to be acknowledged there (`counted`): all
-- but those of clean blocks (`doubtful_blocks`), whose place nobody was told. `is_in_order`: from the first offset to the
-- last there is one record each, all of one producer, each with a number above that of the one before.
SELECT
  *, rises = stored - 1 AND first >= 0 AND stored = last - first + 1 AND stored = offsets AND stored = taken
    AND producer_id = last_producer_id AS is_in_order
FROM (
  SELECT
    lane, `partition`, word, MIN(`offset`) AS first, MAX(`offset`) AS last, BIT_COUNT(BIT_OR(bit)) AS taken,
    BIT_COUNT(BIT_OR(is_record * bit)) AS offsets, MAX(CASE WHEN is_record = 1 THEN `offset` END) AS log_end,
    SUM(is_record) AS stored, SUM(hash) AS content,
    SUM(is_counted) AS counted, SUM(CASE WHEN is_counted = 1 THEN hash ELSE 0 END) AS counted_content,
    MIN(producer_id) AS producer_id, MAX(producer_id) AS last_producer_id, MIN(seq) AS first_seq, MAX(seq) AS last_seq,
    RISES(place, seq) AS rises
  FROM (
    SELECT *, `offset` DIV 32 AS word, SHIFTLEFT(CAST(1 AS BIGINT), place) AS bit
    FROM (
      SELECT
        g.lane, g.`partition`, g.`offset`, 1 AS is_record, g.producer_id, g.seq,
        CAST(g.`offset` & 31 AS INT) AS place, XXHASH64(l.salt, g.`offset`, g.producer_id, g.seq) AS hash,
        CASE WHEN l.unplaced = 1 AND b.block IS NULL THEN 0 ELSE 1 END AS is_counted
      FROM log g
      JOIN lanes l USING (lane)
      LEFT JOIN doubtful_blocks b ON b.lane = g.lane AND b.producer_id = g.producer_id AND b.block = g.seq DIV 32
      UNION ALL
      SELECT
        lane, `partition`, `offset`, 0, NULL, NULL, CAST(`offset` & 31 AS INT), CAST(0 AS BIGINT), 0
      FROM markers
    ) q
  ) q
  GROUP BY lane, `partition`, word
) q
