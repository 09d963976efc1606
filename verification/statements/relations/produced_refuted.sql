-- certainly not written, at an offset
-- of: produced
SELECT lane, producer_id, refuted AS n FROM sent WHERE refuted > 0
