-- an offset twice
-- of: replicas; rests: replica_divergence
SELECT lane, `partition`, broker, SUM(n) - BIT_COUNT(BIT_OR(bits)) AS n
FROM replica_words
GROUP BY lane, `partition`, broker, word
HAVING SUM(n) > BIT_COUNT(BIT_OR(bits))
