-- The records in replicas/ that are no markers.
-- keep: no
SELECT * FROM replicas WHERE kind IS NULL OR kind NOT IN ('commit', 'abort')
