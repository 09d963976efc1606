-- What was acknowledged (`sent_words`) and what the log holds (`log_words`) by words, 32 offsets of a partition each.
-- `differs`: how many more records are acknowledged there than stored, `content_differs`: the same of the sums of their
-- hashes; both are 0 where the log holds just what was acknowledged.
SELECT
  lane, `partition`, word, SUM(differs) AS differs, SUM(content_differs) AS content_differs, SUM(stored) AS stored,
  SUM(content) AS content, SUM(offsets) AS offsets, SUM(claims) AS claims
FROM (
  SELECT
    lane, `partition`, word, placed AS differs, content AS content_differs, 0 AS stored, CAST(0 AS BIGINT) AS content,
    0 AS offsets, claims
  FROM sent_words
  WHERE word IS NOT NULL
  UNION ALL
  SELECT lane, `partition`, word, -counted, -counted_content, stored, content, offsets, 0
  FROM log_words
  WHERE stored > 0
) q
GROUP BY lane, `partition`, word
