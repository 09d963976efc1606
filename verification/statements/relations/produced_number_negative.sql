-- a number below 0
-- of: produced
SELECT lane, producer_id, first_seq AS seq FROM sent_blocks WHERE first_seq < 0 AND producer_id >= 0
