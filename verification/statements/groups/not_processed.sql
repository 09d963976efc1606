-- An input of a loop has no such output, although the committed offset is past it.
-- unit: identities of inputs
-- row: the input; the cause names its lane
-- needs: log
SELECT DISTINCT p.judged AS lane, p.producer_id, p.seq, 'input of lane ' || p.lane AS cause
FROM passed p
JOIN `groups` g ON g.judged = p.judged AND g.`group` = p.`group` AND g.is_loop = 1
LEFT ANTI JOIN outputs o
  ON o.judged = p.judged AND o.`group` = p.`group` AND o.producer_id = p.producer_id AND o.seq = p.seq
