-- A `read_committed` consumer, or share group, was given a record that is aborted, or whose transaction's outcome is `aborted`.
--
-- Aborted is what stands before an abort marker in the log where the consumer read it. Outside of doubtful words
-- (`doubtful_words`), each read record stands before a commit marker: there, only the outcome can be `aborted`.
-- unit: identities
-- row: where it was read first
SELECT
  lane, producer_id, seq, first AS place, 'transaction ' || `transaction` || ', read by ' || first.consumer AS cause
FROM (
  SELECT r.lane, r.producer_id, r.seq, m.`transaction`, MIN(STRUCT(r.`partition`, r.`offset`, r.consumer)) AS first
  FROM (
    SELECT s.lane, s.consumer, s.`partition`, s.`offset`, s.producer_id, s.seq
    FROM suspect_reads s
    JOIN isolation i ON i.lane = s.lane AND i.consumer = s.consumer AND i.isolation = 'read_committed'
    UNION ALL
    SELECT c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq
    FROM committed_reads c
    LEFT SEMI JOIN (
      SELECT w.lane, w.producer_id, w.seq
      FROM written w
      LEFT SEMI JOIN (SELECT * FROM transaction_summaries WHERE outcome = 'aborted' AND committed > 0) a
        USING (lane, producer_id, `transaction`)
    ) a USING (lane, producer_id, seq)
    UNION ALL
    SELECT d.lane, d.member, d.`partition`, d.`offset`, d.producer_id, d.seq
    FROM deliveries d
    JOIN shares s USING (lane)
    WHERE s.committed = 1
  ) r
  JOIN transaction_records m USING (lane, producer_id, seq)
  JOIN transaction_summaries o USING (lane, producer_id, `transaction`)
  LEFT JOIN fates f
    ON f.lane = r.lane AND f.`partition` = r.`partition` AND f.`offset` = r.`offset` AND f.producer_id = r.producer_id
    AND f.seq = r.seq
  WHERE o.outcome = 'aborted' OR f.fate = 'abort'
  GROUP BY r.lane, r.producer_id, r.seq, m.`transaction`
) q
