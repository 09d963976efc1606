-- An input of a loop has two or more outputs that readers are given; as many as it has offsets, if the source holds it, or
-- the loop was given it, at several.
-- unit: identities of inputs
-- row: the input; the cause names its lane
-- needs: log
SELECT
  o.judged AS lane, o.producer_id, o.seq, 'input of lane ' || o.lane || ', with ' || MAX(o.n) || ' outputs' AS cause
FROM outputs o
LEFT SEMI JOIN known k USING (lane, producer_id, seq)
LEFT JOIN (
  SELECT judged, `group`, producer_id, seq, COUNT(*) AS n
  FROM (
    SELECT g.judged, g.`group`, d.producer_id, d.seq, d.`partition`, d.`offset` FROM due d JOIN `groups` g USING (lane)
    UNION
    SELECT judged, `group`, producer_id, seq, `partition`, `offset` FROM processed
  ) q
  GROUP BY judged, `group`, producer_id, seq
) p USING (judged, `group`, producer_id, seq)
WHERE o.n > 1
GROUP BY o.judged, o.`group`, o.lane, o.producer_id, o.seq
HAVING MAX(o.n) > MAX(COALESCE(p.n, 0))
