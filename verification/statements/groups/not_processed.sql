-- The group has committed past an input, and readers are given no output of it.
--
-- Counted in inputs; the row names the input.
--
-- unit: input
-- tables: passed, outputs, groups
-- needs: log
SELECT DISTINCT p.judged AS lane, p.producer_id, p.seq, 'input of lane ' || p.lane AS cause
FROM passed p
JOIN `groups` g ON g.judged = p.judged AND g.`group` = p.`group` AND g.is_loop = 1
LEFT ANTI JOIN outputs o
  ON o.judged = p.judged AND o.`group` = p.`group` AND o.producer_id = p.producer_id AND o.seq = p.seq
