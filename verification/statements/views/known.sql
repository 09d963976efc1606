-- The records that were produced. One that can't be decoded, (-1, -1), counts as never produced.
-- keep: no
SELECT * FROM sends WHERE NOT (producer_id = -1 AND seq = -1)
