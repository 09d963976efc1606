-- Of a transaction's records, some are committed and some are not; or a `read_committed` consumer was given some of its
-- committed records, and stepped over others. Not if its outcome is `aborted`, nor if it is open without hanging.
--
-- What is not committed may be aborted, open or absent from the log. Records whose outcome is `fail` don't count: they
-- were certainly not written. A consumer stepped over what it did not read between its lowest and highest offset.
-- unit: transactions
-- row: the first record that is not committed, or was stepped over
SELECT q.lane, m.`partition`, m.`offset`, q.producer_id, q.seq, q.cause
FROM (
  SELECT
    lane, producer_id, first_lacking AS seq,
    'transaction ' || `transaction` || ': ' || committed || ' of ' || sent || ' records are committed' AS cause
  FROM transaction_summaries
  LEFT ANTI JOIN (SELECT * FROM open_records WHERE NOT hangs) w USING (lane, producer_id, `transaction`)
  WHERE outcome <> 'aborted' AND committed > 0 AND committed < sent
  UNION ALL
  SELECT
    o.lane, o.producer_id, g.first.seq, 'transaction ' || o.`transaction` || ': given in part to ' || g.first.consumer
  FROM transaction_summaries o
  JOIN (
    SELECT lane, producer_id, `transaction`, MIN(STRUCT(seq, consumer)) AS first
    FROM (
      SELECT
        s.lane, s.consumer, w.producer_id, w.`transaction`,
        COUNT(r.`offset`) AS records_given,
        MIN(CASE WHEN r.`offset` IS NULL THEN w.seq END) AS seq
      FROM doubtful_transactions w
      JOIN (
        SELECT lane, consumer, `partition`, MIN(lowest) AS lowest, MAX(highest) AS highest
        FROM read_words
        WHERE isolation = 'read_committed'
        GROUP BY lane, consumer, `partition`
      ) s USING (lane, `partition`)
      LEFT JOIN (
        SELECT DISTINCT c.lane, c.consumer, c.`partition`, c.`offset`
        FROM committed_reads c
        LEFT SEMI JOIN doubtful_transactions USING (lane, `partition`, `offset`)
      ) r
        ON r.lane = s.lane AND r.consumer = s.consumer AND r.`partition` = s.`partition` AND r.`offset` = w.`offset`
      WHERE w.fate = 'commit' AND w.sent AND w.`offset` BETWEEN s.lowest AND s.highest
      GROUP BY s.lane, s.consumer, w.producer_id, w.`transaction`
    ) q
    WHERE records_given > 0 AND seq IS NOT NULL
    GROUP BY lane, producer_id, `transaction`
  ) g USING (lane, producer_id, `transaction`)
  WHERE o.outcome <> 'aborted' AND NOT (o.committed > 0 AND o.committed < o.sent)
) q
JOIN transaction_records m USING (lane, producer_id, seq)
