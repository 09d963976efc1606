-- What consumers are due of each word (`words`): all of the log (`is_given_all`), and in transactional lanes what is
-- committed. `is_due_to_any`: the part that some consumer has to be given, whatever its isolation level.
SELECT
  w.lane, w.`partition`, w.word, 1 AS is_given_all, CASE WHEN l.is_transactional = 0 THEN 1 ELSE 0 END AS is_due_to_any,
  w.stored AS n, w.content
FROM words w
JOIN lanes l USING (lane)
WHERE w.stored > 0
UNION ALL
SELECT
  f.lane, f.`partition`, f.`offset` DIV 32, 0, 1, COUNT(*), SUM(XXHASH64(l.salt, f.`offset`, f.producer_id, f.seq))
FROM fates f
JOIN lanes l USING (lane)
WHERE f.fate = 'commit'
GROUP BY f.lane, f.`partition`, f.`offset` DIV 32
