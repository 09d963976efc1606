-- in the log, or read, in another partition than it was sent to
-- of: produced
SELECT lane, producer_id, seq FROM records
WHERE NOT acknowledged AND (first_stored.`partition` <> `partition` OR first_read.`partition` <> `partition`)
