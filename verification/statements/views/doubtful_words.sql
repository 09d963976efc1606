-- The words (`words`) that are not proven clean. In all others the log holds each acknowledged record at its place and
-- nothing else, and every consumer that went on past it read just what it was due, each record once.
SELECT lane, `partition`, word
FROM words
WHERE differs <> 0 OR content_differs <> 0 OR stored <> offsets OR claims > 0
UNION
SELECT d.lane, d.`partition`, d.word
FROM (
  SELECT
    lane, consumer, `partition`, MIN(lowest) DIV 32 AS first, MAX(highest) DIV 32 AS last, MAX(is_given_all) AS is_given_all
  FROM read_words
  GROUP BY lane, consumer, `partition`
) s
JOIN due_words d
  ON d.lane = s.lane AND d.`partition` = s.`partition` AND d.is_given_all = s.is_given_all
  AND d.word BETWEEN s.first AND s.last
LEFT JOIN read_words r
  ON r.lane = s.lane AND r.consumer = s.consumer AND r.`partition` = s.`partition` AND r.word = d.word
WHERE r.n IS NULL OR r.n <> d.n OR r.content <> d.content
UNION
SELECT r.lane, r.`partition`, r.word
FROM read_words r
LEFT ANTI JOIN due_words d USING (lane, `partition`, word, is_given_all)
UNION
SELECT d.lane, d.`partition`, d.word
FROM due_words d
JOIN partition_ends e USING (lane, `partition`)
LEFT JOIN (
  SELECT
    lane, `partition`, word, MAX(is_given_all) AS is_given_all,
    MAX(CASE WHEN isolation = 'read_committed' THEN 1 ELSE 0 END) AS is_given_committed
  FROM read_words
  GROUP BY lane, `partition`, word
) r ON r.lane = d.lane AND r.`partition` = d.`partition` AND r.word = d.word
WHERE CASE
  WHEN d.is_due_to_any = 1 THEN (e.read_end IS NOT NULL AND r.word IS NULL)
    OR (d.is_given_all = 0 AND e.committed_read_end IS NOT NULL AND COALESCE(r.is_given_committed, 0) = 0)
  ELSE e.uncommitted_read_end >= e.log_end AND COALESCE(r.is_given_all, 0) = 0
END
