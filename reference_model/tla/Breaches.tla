---------------------------- MODULE Breaches ----------------------------
(* Which invariants break, in one search that goes on: TLC itself ends at the first breach. Each is printed when it  *)
(* is first seen. For one worker only: each worker has registers of its own.                                         *)
EXTENDS Replication, TLC

verdicts == <<
    <<"leader_in_isr", leader_in_isr>>,
    <<"weak_isr", weak_isr>>,
    <<"strong_isr", strong_isr>>,
    <<"committed_records_kept", committed_records_kept>>,
    <<"followers_agree", followers_agree>>,
    <<"log_matching", log_matching>>,
    <<"one_leader_per_epoch", one_leader_per_epoch>>
>>
step_verdicts == << <<"high_watermark_monotonic", high_watermark_monotonic>> >>

note(register, verdict) ==
    verdict[2] \/ TLCGet(register) \/ (TLCSet(register, TRUE) /\ PrintT(<<"breaks", verdict[1], TLCGet("level")>>))

\* As INIT: nothing is broken yet.
watched_init == init /\ \A register \in 1..8 : TLCSet(register, FALSE)

\* As CONSTRAINT and as ACTION_CONSTRAINT: true in every state and of every step, so that they leave none out.
watch_states == LET found == verdicts IN \A i \in DOMAIN found : note(i, found[i])
watch_steps == LET found == step_verdicts IN \A i \in DOMAIN found : note(7 + i, found[i])
=========================================================================
