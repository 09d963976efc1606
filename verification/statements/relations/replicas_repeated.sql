-- an offset twice
-- of: replicas; rests: replica_divergence
SELECT lane, `partition`, `offset` FROM replicas GROUP BY lane, `partition`, broker, `offset` HAVING COUNT(*) > 1
