-- A `read_committed` consumer, or share group, was given a record before the commit of its transaction was asked for.
--
-- It was given the record at an earlier time (`commit_ns`; without it, before the last record of the transaction was
-- sent), or in the record's own transaction. Or committed transactions have read from each other in a cycle (Adya's G1c,
-- by reads alone): then one of them has read before another's commit was asked for, and the first record of the lowest
-- one counts. What is aborted, for its producer or in the log, is an `aborted_read` instead.
-- unit: identities
-- row: where it was read first
SELECT lane, producer_id, seq, first AS place, 'transaction ' || `transaction` || first.why AS cause
FROM (
  SELECT lane, producer_id, seq, `transaction`, MIN(STRUCT(`partition`, `offset`, why)) AS first
  FROM (
    SELECT
      r.lane, r.producer_id, r.seq, o.`transaction`, r.`partition`, r.`offset`,
      ', given to ' || r.consumer
      || CASE WHEN r.ns < o.asked_ns THEN ' before its commit was asked for' ELSE ' within it' END AS why
    FROM (
      SELECT
        lane, consumer, `partition`, `offset`, producer_id, seq, poll_ns AS ns, reading_producer_id, reading_transaction
      FROM committed_reads
      UNION ALL
      SELECT d.lane, d.member, d.`partition`, d.`offset`, d.producer_id, d.seq, d.delivered_ns, NULL, NULL
      FROM deliveries d
      JOIN shares s USING (lane)
      WHERE s.committed = 1
    ) r
    LEFT ANTI JOIN (SELECT * FROM fates WHERE fate = 'abort') f USING (lane, `partition`, `offset`, producer_id, seq)
    JOIN transaction_records m USING (lane, producer_id, seq)
    JOIN transaction_summaries o ON o.lane = r.lane AND o.producer_id = r.producer_id AND o.`transaction` = m.`transaction`
    WHERE o.outcome <> 'aborted'
      AND (r.ns < o.asked_ns OR (r.reading_producer_id = r.producer_id AND r.reading_transaction = m.`transaction`))
    UNION ALL
    SELECT
      c.lane, c.producer_id, m.seq, c.`transaction`, m.`partition`, m.`offset`,
      ', one of ' || c.size || ' of producers ' || c.producers || ' that read from each other in a cycle'
    FROM cycles c
    JOIN transaction_summaries o USING (lane, producer_id, `transaction`)
    JOIN transaction_records m ON m.lane = o.lane AND m.producer_id = o.producer_id AND m.seq = o.first_seq
    WHERE c.by_reads = 1
  ) q
  GROUP BY lane, producer_id, seq, `transaction`
) q
