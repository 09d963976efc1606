-- The identities in doubt: all that has a row in a doubtful word, and all that no acknowledgement places. Of every other
-- one there is one row in the log, at the place that was acknowledged, and none of its reads is anywhere else.
--
-- keep: yes
SELECT DISTINCT lane, producer_id, seq
FROM (
  SELECT lane, producer_id, seq FROM sends WHERE NOT acknowledged OR (producer_id = -1 AND seq = -1)
  UNION ALL
  SELECT s.lane, s.producer_id, s.seq
  FROM sends s
  LEFT SEMI JOIN doubtful_words d ON d.lane = s.lane AND d.`partition` = s.`partition` AND d.word = s.`offset` DIV 32
  WHERE s.acknowledged
  UNION ALL
  SELECT g.lane, g.producer_id, g.seq
  FROM log g
  LEFT SEMI JOIN doubtful_words d ON d.lane = g.lane AND d.`partition` = g.`partition` AND d.word = g.`offset` DIV 32
  UNION ALL
  SELECT c.lane, c.producer_id, c.seq
  FROM consumed c
  LEFT SEMI JOIN doubtful_words d ON d.lane = c.lane AND d.`partition` = c.`partition` AND d.word = c.`offset` DIV 32
) q
