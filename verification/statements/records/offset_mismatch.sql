-- Acknowledged at an offset, in the final log only at others.
-- unit: identities
-- row: the acknowledged position
-- needs: log
SELECT
  r.lane, r.producer_id, r.seq, r.`partition`, r.`offset`,
  'in the log at partition ' || r.first_stored.`partition` || ', offset ' || r.first_stored.`offset` AS cause
FROM records r
LEFT ANTI JOIN stored s USING (lane, producer_id, seq, `partition`, `offset`)
WHERE r.acknowledged AND r.first_stored IS NOT NULL
