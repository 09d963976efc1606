-- One consumer, after its first offset, steps over an offset that the log holds and never reads it.
--
-- In transactional lanes only what the consumer was to be given. Counted in (partition, offset); the row names the highest
-- identity there, its cause the first consumer.
--
-- A consumer stepped over what lies between the lowest offset that it had read and a higher one that it read later.
--
-- unit: position
-- tables: polls, consumed, stored, visible, isolation, lanes
SELECT
  lane, `partition`, `offset`, highest.producer_id AS producer_id, highest.seq AS seq,
  'stepped over by ' || consumer AS cause
FROM (
  SELECT
    m.lane, m.`partition`, m.`offset`, MAX(STRUCT(m.producer_id, m.seq)) AS highest, MIN(m.consumer) AS consumer
  FROM (
    SELECT p.lane, p.consumer, s.`partition`, s.`offset`, s.producer_id, s.seq
    FROM (
      SELECT lane, consumer, `partition`, lowest, MAX(`offset`) AS highest
      FROM polls
      GROUP BY lane, consumer, `partition`, lowest
    ) p
    JOIN stored s ON s.lane = p.lane AND s.`partition` = p.`partition`
    WHERE s.`offset` > p.lowest AND s.`offset` < p.highest
  ) m
  JOIN lanes l ON l.lane = m.lane
  LEFT JOIN isolation i ON i.lane = m.lane AND i.consumer = m.consumer
  LEFT JOIN visible v ON v.lane = m.lane AND v.`partition` = m.`partition` AND v.`offset` = m.`offset`
  LEFT ANTI JOIN consumed c
    ON c.lane = m.lane AND c.consumer = m.consumer AND c.`partition` = m.`partition` AND c.`offset` = m.`offset`
  WHERE l.timeout_ms IS NULL OR i.isolation = 'read_uncommitted' OR v.`offset` IS NOT NULL
  GROUP BY m.lane, m.`partition`, m.`offset`
) q
