-- Of a transaction some records are committed and others are not, or a reader was given some and not all.
--
-- One that the producer knows to be aborted is never torn. The first half: of the records that the producer sent, at least
-- one is committed and at least one is not, be it aborted, open or absent from the log. Records whose outcome is `fail`
-- don't count: they were certainly not written. The second half: a read_committed consumer was given some records of the
-- transaction and passed other committed ones by. Counted in transactions; the row names the first record that is not
-- committed, or was not given.
--
-- unit: transaction
-- tables: outlines, given_in_part, members
SELECT q.lane, m.`partition`, m.`offset`, q.producer_id, q.seq, q.cause
FROM (
  SELECT
    lane, producer_id, first_lacking AS seq,
    'transaction ' || `transaction` || ': ' || committed || ' of ' || sent || ' records are committed' AS cause
  FROM outlines
  WHERE outcome <> 'aborted' AND committed > 0 AND committed < sent
  UNION ALL
  SELECT o.lane, o.producer_id, g.seq, 'transaction ' || o.`transaction` || ': given in part to ' || g.consumer
  FROM outlines o
  JOIN given_in_part g ON g.lane = o.lane AND g.producer_id = o.producer_id AND g.`transaction` = o.`transaction`
  WHERE o.outcome <> 'aborted' AND NOT (o.committed > 0 AND o.committed < o.sent)
) q
JOIN members m ON m.lane = q.lane AND m.producer_id = q.producer_id AND m.seq = q.seq
