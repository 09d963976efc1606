-- an offset twice
-- of: replicas; rests: replica_divergence
SELECT lane, `partition`, broker, n - offsets AS n FROM replica_words WHERE n > offsets
