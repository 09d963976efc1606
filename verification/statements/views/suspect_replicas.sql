-- The rows of replicas/ in words (`replica_words`) in which not every broker has the same records, markers and leader
-- epochs; in a small run, all.
--
-- keep: no
SELECT r.*
FROM replicas r
LEFT SEMI JOIN (
  SELECT lane, `partition`, word
  FROM replica_words
  GROUP BY lane, `partition`, word
  HAVING MIN(n) <> MAX(n) OR MIN(content) <> MAX(content)
) w ON w.lane = r.lane AND w.`partition` = r.`partition` AND w.word = r.`offset` DIV 32
