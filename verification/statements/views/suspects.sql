-- The identities in doubt: all that has a row in a doubtful word, and all that neither an acknowledgement nor a clean block
-- (`doubtful_blocks`) places. Of every other one there is one row in the log, at the place that was acknowledged if one was,
-- and none of its reads is anywhere else.
--
-- keep: yes
SELECT DISTINCT lane, producer_id, seq
FROM (
  SELECT s.lane, s.producer_id, s.seq
  FROM sends s
  JOIN lanes l ON l.lane = s.lane
  LEFT JOIN doubtful_blocks b ON b.lane = s.lane AND b.producer_id = s.producer_id AND b.block = s.seq DIV 32
  LEFT JOIN doubtful_words d ON d.lane = s.lane AND d.`partition` = s.`partition` AND d.word = s.`offset` DIV 32
  WHERE CASE WHEN s.acknowledged THEN d.word IS NOT NULL ELSE l.unplaced = 0 OR b.block IS NOT NULL END
    OR (s.producer_id = -1 AND s.seq = -1)
  UNION ALL
  SELECT g.lane, g.producer_id, g.seq
  FROM log g
  LEFT SEMI JOIN doubtful_words d ON d.lane = g.lane AND d.`partition` = g.`partition` AND d.word = g.`offset` DIV 32
  UNION ALL
  SELECT c.lane, c.producer_id, c.seq
  FROM consumed c
  LEFT SEMI JOIN doubtful_words d ON d.lane = c.lane AND d.`partition` = c.`partition` AND d.word = c.`offset` DIV 32
) q
