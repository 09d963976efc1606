-- The rows of replicas/ in words in which replicas differ (`differing_words`); in a small run, all.
-- keep: no
SELECT r.*
FROM replicas r
LEFT SEMI JOIN differing_words w
  ON w.lane = r.lane AND w.`partition` = r.`partition` AND w.word = r.`offset` DIV 32 AND w.differs
