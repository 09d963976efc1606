-- By consumer and partition its rows of consumed/.
SELECT
  lane, consumer, `partition`, SUM(n) AS n, MAX(highest) AS last, MIN(first_ns) AS first_ns, MAX(last_ns) AS last_ns
FROM read_words
GROUP BY lane, consumer, `partition`
