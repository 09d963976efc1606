-- One consumer steps forward over an offset that the log holds, and never reads it; a record of the final log that was
-- sent only after that was not there then.
--
-- A consumer stepped over what lies between the lowest offset that it had read and a higher one that it read later; in
-- transactional lanes only what it was to be given. What was sent only after that is in a log that replaced what it read.
-- unit: (partition, offset)
-- row: the record at that offset, of several the highest identity; the cause names the consumer
SELECT d.lane, d.`partition`, d.`offset`, MAX(d.highest) AS record, 'stepped over by ' || MIN(d.consumer) AS cause
FROM (
  SELECT
    lane, consumer, `partition`, `offset`, highest,
    MIN(poll_ns) OVER (
      PARTITION BY lane, consumer, `partition` ORDER BY `offset` DESC RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS passed_ns
  FROM (
    SELECT
      m.lane, m.consumer, m.`partition`, m.`offset`, MAX(STRUCT(m.producer_id, m.seq)) AS highest,
      CAST(NULL AS BIGINT) AS poll_ns
    FROM (
      SELECT p.lane, p.consumer, s.`partition`, s.`offset`, s.producer_id, s.seq
      FROM (
        SELECT lane, consumer, `partition`, lowest, MAX(last) AS highest
        FROM polls
        GROUP BY lane, consumer, `partition`, lowest
      ) p
      JOIN stored s USING (lane, `partition`)
      WHERE s.`offset` > p.lowest AND s.`offset` < p.highest
    ) m
    JOIN lanes l USING (lane)
    LEFT JOIN isolation i USING (lane, consumer)
    LEFT JOIN visible v ON v.lane = m.lane AND v.`partition` = m.`partition` AND v.`offset` = m.`offset`
    LEFT ANTI JOIN suspect_reads c
      ON c.lane = m.lane AND c.consumer = m.consumer AND c.`partition` = m.`partition` AND c.`offset` = m.`offset`
    WHERE l.is_transactional = 0 OR i.isolation = 'read_uncommitted' OR v.`offset` IS NOT NULL
    GROUP BY m.lane, m.consumer, m.`partition`, m.`offset`
    UNION ALL
    SELECT lane, consumer, `partition`, `offset`, CAST(NULL AS STRUCT<producer_id: INT, seq: BIGINT>), poll_ns
    FROM polls
    WHERE `offset` > previous + 1
  ) q
) d
JOIN records r ON r.lane = d.lane AND r.producer_id = d.highest.producer_id AND r.seq = d.highest.seq
JOIN lanes a ON a.lane = d.lane
WHERE d.highest IS NOT NULL AND (r.invoke_ns <= d.passed_ns OR a.final_log = 0)
GROUP BY d.lane, d.`partition`, d.`offset`
