-- A record of the log lies before the last start offset that the share group reported, and no member was given it there.
--
-- Due are records from the first start offset on: from the beginning of the log where the group starts at the earliest,
-- else from the first one reported. Those of a read_committed group have to be committed. An offset at which another
-- record was delivered was used again: nothing is due there.
-- unit: identities
-- row: its lowest place
-- needs: log
SELECT lane, first AS place, producer_id, seq, 'the group is past offset ' || first.past AS cause
FROM (
  SELECT g.lane, g.producer_id, g.seq, MIN(STRUCT(g.`partition`, g.`offset`, p.past)) AS first
  FROM log g
  JOIN lanes l USING (lane)
  JOIN shares s USING (lane)
  JOIN share_spans p USING (lane, `partition`)
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  LEFT ANTI JOIN deliveries d USING (lane, `partition`, `offset`)
  LEFT JOIN visible v ON v.lane = g.lane AND v.`partition` = g.`partition` AND v.`offset` = g.`offset`
  WHERE g.`offset` < p.past AND (s.earliest = 1 OR g.`offset` >= p.first)
    AND (s.committed = 0 OR l.is_transactional = 0 OR v.`offset` IS NOT NULL)
  GROUP BY g.lane, g.producer_id, g.seq
) q
