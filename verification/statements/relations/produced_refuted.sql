-- certainly not written, at an offset
-- of: produced
SELECT lane, producer_id, refuted AS n FROM sends_by_transaction WHERE refuted > 0
