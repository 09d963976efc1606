-- acknowledged, with an error
-- of: produced
SELECT lane, producer_id, seq FROM produced WHERE outcome = 'ok' AND error IS NOT NULL
