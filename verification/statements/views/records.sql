-- Each suspect (`suspect_sends`) with the first and the last place at which it is stored, and the first at which it was read.
--
-- A place is a struct of partition and offset, null if there is none.
SELECT k.*, s.first_stored, s.last_stored, r.first_read
FROM suspect_sends k
LEFT JOIN (
  SELECT
    lane, producer_id, seq, MIN(STRUCT(`partition`, `offset`)) AS first_stored,
    MAX(STRUCT(`partition`, `offset`)) AS last_stored
  FROM stored
  GROUP BY lane, producer_id, seq
) s ON s.lane = k.lane AND s.producer_id = k.producer_id AND s.seq = k.seq
LEFT JOIN (
  SELECT lane, producer_id, seq, MIN(STRUCT(`partition`, `offset`)) AS first_read
  FROM reads
  GROUP BY lane, producer_id, seq
) r ON r.lane = k.lane AND r.producer_id = k.producer_id AND r.seq = k.seq
