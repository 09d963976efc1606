-- Ranges of offsets without a hole that the log's records and the markers of transactions take: the offsets of a word (32
-- offsets of a partition) as one range, if they have none, else each as a range of its own.
SELECT lane, `partition`, first AS begins, last AS ends FROM log_words WHERE taken = last - first + 1
UNION ALL
SELECT DISTINCT q.lane, q.`partition`, q.`offset`, q.`offset`
FROM (
  SELECT lane, `partition`, `offset` FROM log
  UNION ALL
  SELECT lane, `partition`, `offset` FROM replicas WHERE kind IN ('commit', 'abort')
) q
JOIN log_words w ON w.lane = q.lane AND w.`partition` = q.`partition` AND w.word = q.`offset` DIV 32
WHERE w.taken <> w.last - w.first + 1
