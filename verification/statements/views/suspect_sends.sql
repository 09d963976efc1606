-- The produced records in doubt, *suspects*; in a small run, all. A suspect has a row in a doubtful word, or neither an
-- acknowledgement nor a clean block places it. Of every other record there is one row in the log, at the place that was
-- acknowledged if one was, and none of its reads is anywhere else. (-1, -1) counts as never produced.
SELECT s.* FROM doubtful_sends s WHERE NOT (s.producer_id = -1 AND s.seq = -1)
UNION ALL
SELECT k.*
FROM known k
LEFT SEMI JOIN displaced p USING (lane, producer_id, seq)
