-- An accept or a reject of a record was acknowledged, and a member was given the record again that asked for it only later.
-- unit: identities
-- row: the place of the delivery that was accepted or rejected
SELECT lane, first AS place, producer_id, seq,
  first.acknowledgement || 'ed by ' || first.member || ', given to ' || first.again AS cause
FROM (
  SELECT
    a.lane, a.producer_id, a.seq,
    MIN(STRUCT(a.`partition`, a.`offset`, a.complete_ns, a.member, a.acknowledgement, b.delivered_ns, b.member AS again))
      AS first
  FROM deliveries a
  JOIN deliveries b USING (lane, `partition`, `offset`, producer_id, seq)
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  WHERE a.acknowledgement IN ('accept', 'reject') AND a.outcome = 'ok' AND b.asked_ns > a.complete_ns
  GROUP BY a.lane, a.producer_id, a.seq
) q
