-- One identity at two or more positions of the log. Where records are removed, and nothing that is committed can get
-- lost, a read shows a first position that is gone.
-- unit: identities
-- row: the last position; the cause names the first
SELECT
  lane, producer_id, seq, last_stored AS place,
  'first at partition ' || first.`partition` || ', offset ' || first.`offset` AS cause
FROM (
  SELECT
    *, CASE WHEN cleaned * lossless = 1 AND first_read < first_stored THEN first_read ELSE first_stored END AS first
  FROM records JOIN lanes USING (lane)
) q
WHERE first <> last_stored
