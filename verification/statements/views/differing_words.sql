-- The words (`replica_words`) that not every replica of the partition has, or in which not all have the same records, markers
-- and leader epochs, each offset once. `differs`: those that have rows there have others, or more of them.
SELECT lane, `partition`, word, MIN(n) <> MAX(n) OR MIN(content) <> MAX(content) AS differs
FROM (
  SELECT
    lane, `partition`, broker, word, SUM(n) AS n, SUM(content) AS content, SUM(n) - BIT_COUNT(BIT_OR(bits)) AS repeated
  FROM replica_words
  GROUP BY lane, `partition`, broker, word
) q
JOIN (SELECT lane, `partition`, COUNT(DISTINCT broker) AS replicas FROM epochs GROUP BY lane, `partition`) e
  USING (lane, `partition`)
GROUP BY lane, `partition`, word, replicas
HAVING MIN(n) <> MAX(n) OR MIN(content) <> MAX(content) OR COUNT(*) < replicas OR MAX(repeated) > 0
