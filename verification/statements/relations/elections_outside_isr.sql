-- a leader elected that is not in its ISR
-- of: events.jsonl
SELECT lane, `partition`, leader_epoch FROM elections WHERE in_isr = 0
