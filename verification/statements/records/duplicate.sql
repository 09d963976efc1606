-- One identity at two or more positions of the log.
-- unit: identities
-- row: the last position; the cause names the first
SELECT
  lane, producer_id, seq, last_stored AS place,
  'first at partition ' || first_stored.`partition` || ', offset ' || first_stored.`offset` AS cause
FROM records
WHERE first_stored <> last_stored
