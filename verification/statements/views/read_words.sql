-- What each consumer read of each word (`words`): how many records, the sum of their hashes, the first and the last offset.
-- `is_given_all`: whether it is due what is not committed, too.
--
-- keep: yes
SELECT
  c.lane, c.consumer, c.`partition`, c.`offset` DIV 32 AS word, COUNT(*) AS n,
  SUM(XXHASH64(l.salt, c.`offset`, c.producer_id, c.seq)) AS content, MIN(c.`offset`) AS lowest, MAX(c.`offset`) AS highest,
  MAX(CASE WHEN l.is_transactional = 0 OR i.isolation = 'read_uncommitted' THEN 1 ELSE 0 END) AS is_given_all
FROM consumed c
JOIN lanes l ON l.lane = c.lane
LEFT JOIN isolation i ON i.lane = c.lane AND i.consumer = c.consumer
GROUP BY c.lane, c.consumer, c.`partition`, c.`offset` DIV 32
