-- The words, 32 offsets of a partition, in which reads and replicas have more than one leader epoch.
SELECT lane, `partition`, word
FROM (
  SELECT lane, `partition`, word, leader_epoch FROM replica_words
  UNION ALL
  SELECT lane, `partition`, `offset` DIV 32, leader_epoch FROM consumed
) q
GROUP BY lane, `partition`, word
HAVING MIN(leader_epoch) < MAX(leader_epoch)
