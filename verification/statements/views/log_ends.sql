-- By partition the last offset in the log or in a replica.
SELECT lane, `partition`, MAX(last) AS last
FROM (
  SELECT lane, `partition`, MAX(log_end) AS last FROM log_words GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, last FROM epochs
) q
GROUP BY lane, `partition`
