-- What each consumer read of each word (`words`). `content`: the sum of the records' hashes; `is_given_all`: whether it is
-- due what is not committed, too; `isolation`: its level; `is_in_order`: no offset was read twice, and each later than all lower ones.
SELECT *, rises = n - 1 AND n = offsets AND lowest >= 0 AS is_in_order
FROM (
  SELECT
    lane, consumer, `partition`, word, COUNT(*) AS n, SUM(hash) AS content, MIN(`offset`) AS lowest,
    MAX(`offset`) AS highest, MIN(poll_ns) AS first_ns, MAX(poll_ns) AS last_ns, MAX(is_given_all) AS is_given_all,
    MAX(isolation) AS isolation,
    BIT_COUNT(BIT_OR(SHIFTLEFT(CAST(1 AS BIGINT), place))) AS offsets, RISES(place, poll_ns) AS rises
  FROM (
    SELECT
      c.lane, c.consumer, c.`partition`, c.`offset`, c.poll_ns, c.`offset` DIV 32 AS word,
      CAST(c.`offset` & 31 AS INT) AS place, XXHASH64(l.salt, c.`offset`, c.producer_id, c.seq) AS hash,
      CASE WHEN l.is_transactional = 0 OR i.isolation = 'read_uncommitted' THEN 1 ELSE 0 END AS is_given_all, i.isolation
    FROM consumed c
    JOIN lanes l USING (lane)
    LEFT JOIN isolation i USING (lane, consumer)
  ) q
  GROUP BY lane, consumer, `partition`, word
) q
