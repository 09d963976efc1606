---------------------------- MODULE Replication ----------------------------
(* The replication core of explore/, a second time: the same state, one action per action of core.py, and the        *)
(* invariants of exploration.py, under the same names. TLC must find as many states as `explore` and the same breaches. *)
EXTENDS Integers, Sequences, FiniteSets, Truncation

CONSTANTS
    BROKERS,                   \* how many; they are 0, 1, ...
    RECORDS,                   \* how many may be appended, by all leaders together
    LEADER_EPOCHS,             \* how often the controller may decide
    KILLS, POWER_LOSSES,       \* how often each may strike
    UNCLEAN,                   \* unclean.leader.election.enable
    ASKS_LEADER,               \* a new follower truncates by its leader's answer
    FENCED,                    \* that question and fetches need both sides in the same leader epoch
    truncation(_, _, _)        \* (follower's log, its high watermark, leader's log) -> its new log end

VARIABLES
    replicas,                  \* broker -> [log, high_watermark, leader_epoch, leader, isr]: what it holds and believes
    requests,                  \* every LeaderAndIsr sent; that of epoch e is the one at index e + 1
    isr,                       \* in ZooKeeper; leaders change it in place
    next_record,
    faults                     \* kind -> how often it may still strike

vars == <<replicas, requests, isr, next_record, faults>>

brokers == 0..BROKERS - 1
no_leader == -1
no_epoch == -1

\* What ZooKeeper holds besides the ISR.
leader_of_record == IF requests = <<>> THEN no_leader ELSE requests[Len(requests)].leader
epoch_of_record == Len(requests) - 1

log_end(broker) == Len(replicas[broker].log)
presumes(broker) == replicas[broker].leader = broker
serves(leader_epoch, asking_epoch) == FENCED => leader_epoch = asking_epoch

\* The leader counts the follower as following it.
follows(follower, leader) ==
    /\ presumes(leader)
    /\ replicas[follower].leader = leader
    /\ serves(replicas[leader].leader_epoch, replicas[follower].leader_epoch)

init ==
    /\ replicas = [broker \in brokers |->
            [log |-> <<>>, high_watermark |-> 0, leader_epoch |-> no_epoch, leader |-> no_leader, isr |-> {}]]
    /\ requests = <<>>
    /\ isr = brokers
    /\ next_record = 0
    /\ faults = [kill |-> KILLS, power_loss |-> POWER_LOSSES]

---------------------------------------------------------------------------
(* The controller. It may hold any broker for dead at any moment, and be wrong. *)

decide(leader, members) ==
    /\ Len(requests) < LEADER_EPOCHS
    /\ requests' = Append(requests, [leader |-> leader, isr |-> members])
    /\ isr' = members
    /\ UNCHANGED <<replicas, next_record, faults>>

controller_elect_leader(broker) ==
    /\ leader_of_record # broker
    /\ \/ broker \in isr /\ decide(broker, isr)
       \/ broker \notin isr /\ UNCLEAN /\ decide(broker, {broker})

\* The last member stays in the ISR, leaderless.
controller_shrink_isr(broker) ==
    LET leader == IF leader_of_record = broker THEN no_leader ELSE leader_of_record
    IN  /\ broker \in isr
        /\ \/ isr # {broker} /\ decide(leader, isr \ {broker})
           \/ isr = {broker} /\ leader_of_record = broker /\ decide(no_leader, isr)

---------------------------------------------------------------------------
(* A broker receives a LeaderAndIsr, late or never, but none that is older than what it knows. *)

become(broker, state) ==
    /\ replicas' = [replicas EXCEPT ![broker] = state]
    /\ UNCHANGED <<requests, isr, next_record, faults>>

newer_epochs(broker) == {epoch \in 0..epoch_of_record : epoch > replicas[broker].leader_epoch}

become_leader(broker, epoch) ==
    LET request == requests[epoch + 1]
    IN  /\ request.leader = broker
        /\ become(broker, [replicas[broker] EXCEPT !.leader_epoch = epoch, !.leader = broker, !.isr = request.isr])

may_answer(leader, epoch) == ASKS_LEADER => presumes(leader) /\ serves(replicas[leader].leader_epoch, epoch)

become_follower(broker, epoch) ==
    LET request == requests[epoch + 1]
        leader == request.leader
        old == replicas[broker]
        end == IF leader = no_leader THEN Len(old.log)
               ELSE truncation(old.log, old.high_watermark, replicas[leader].log)
    IN  /\ leader # broker
        /\ leader # no_leader => may_answer(leader, epoch)
        /\ become(broker, [log |-> prefix(old.log, end), high_watermark |-> min(end, old.high_watermark),
                           leader_epoch |-> epoch, leader |-> leader, isr |-> request.isr])

---------------------------------------------------------------------------
(* Whoever takes itself for the leader, rightly or not, and its followers. *)

leader_write(broker) ==
    LET entry == [record |-> next_record, epoch |-> replicas[broker].leader_epoch]
    IN  /\ presumes(broker)
        /\ next_record < RECORDS
        /\ next_record' = next_record + 1
        /\ replicas' = [replicas EXCEPT ![broker].log = Append(@, entry)]
        /\ UNCHANGED <<requests, isr, faults>>

leader_advance_high_watermark(broker) ==
    LET watermark == replicas[broker].high_watermark
    IN  /\ presumes(broker)
        /\ watermark < log_end(broker)
        /\ \A other \in replicas[broker].isr \ {broker} : follows(other, broker) /\ log_end(other) > watermark
        /\ become(broker, [replicas[broker] EXCEPT !.high_watermark = watermark + 1])

follower_fetch(broker, follower) ==
    LET end == log_end(follower)
        leader == replicas[broker]
    IN  /\ follower # broker
        /\ follows(follower, broker)
        /\ end < log_end(broker)
        /\ become(follower, [replicas[follower] EXCEPT !.log = Append(@, leader.log[end + 1]),
                                                       !.high_watermark = min(leader.high_watermark, end + 1)])

lags(follower, broker) == ~(follows(follower, broker) /\ log_end(follower) >= log_end(broker))

\* Before its high watermark has reached the start of its own epoch, a leader does not know how far its
\* predecessor's went.
may_join_isr(follower, broker) ==
    LET leader == replicas[broker]
    IN  /\ follows(follower, broker)
        /\ log_end(follower) >= leader.high_watermark
        /\ FENCED => leader.high_watermark >= start_of(leader.log, leader.leader_epoch)

\* At once, by the leader of record in its own epoch.
leader_change_isr(broker, other) ==
    LET believed == replicas[broker].isr
        change(members) ==
            /\ isr' = members
            /\ replicas' = [replicas EXCEPT ![broker].isr = members]
            /\ UNCHANGED <<requests, next_record, faults>>
    IN  /\ presumes(broker)
        /\ leader_of_record = broker
        /\ epoch_of_record = replicas[broker].leader_epoch
        /\ other # broker
        /\ \/ other \in believed /\ lags(other, broker) /\ change(believed \ {other})
           \/ other \notin believed /\ may_join_isr(other, broker) /\ change(believed \cup {other})

---------------------------------------------------------------------------
(* A broker that the controller holds for dead starts again, and takes no request from before its registration. *)

restart(kind, broker) ==
    LET old == replicas[broker]
    IN  /\ faults[kind] > 0
        /\ leader_of_record # broker
        /\ broker \in isr => isr = {broker}
        /\ \E end \in (IF kind = "kill" THEN {Len(old.log)} ELSE 0..Len(old.log)) :
           \E checkpointed \in 0..min(end, old.high_watermark) :
               replicas' = [replicas EXCEPT ![broker] =
                   [log |-> prefix(old.log, end), high_watermark |-> checkpointed,
                    leader_epoch |-> max(old.leader_epoch, epoch_of_record - 1), leader |-> no_leader, isr |-> {}]]
        /\ faults' = [faults EXCEPT ![kind] = @ - 1]
        /\ UNCHANGED <<requests, isr, next_record>>

next ==
    \/ \E broker \in brokers :
        \/ controller_elect_leader(broker)
        \/ controller_shrink_isr(broker)
        \/ \E epoch \in newer_epochs(broker) : become_leader(broker, epoch) \/ become_follower(broker, epoch)
        \/ leader_write(broker)
        \/ leader_advance_high_watermark(broker)
        \/ \E other \in brokers : follower_fetch(broker, other) \/ leader_change_isr(broker, other)
        \/ \E kind \in DOMAIN faults : restart(kind, broker)

---------------------------------------------------------------------------
(* Invariants *)

committed(broker) == prefix(replicas[broker].log, replicas[broker].high_watermark)
has_committed(broker) == presumes(broker) /\ replicas[broker].high_watermark > 0

begins_with(log, beginning) == Len(log) >= Len(beginning) /\ prefix(log, Len(beginning)) = beginning

leader_in_isr == leader_of_record # no_leader => leader_of_record \in isr

weak_isr ==
    \A broker \in brokers : has_committed(broker) =>
        \A member \in replicas[broker].isr : begins_with(replicas[member].log, committed(broker))

strong_isr ==
    \A broker \in brokers : has_committed(broker) =>
        \A member \in isr : begins_with(replicas[member].log, committed(broker))

committed_records_kept ==
    LET leader == leader_of_record
        leads == leader # no_leader /\ presumes(leader) /\ replicas[leader].leader_epoch = epoch_of_record
    IN  leads => \A broker \in brokers : has_committed(broker) => begins_with(replicas[leader].log, committed(broker))

followers_agree ==
    \A leader, follower \in brokers :
        (/\ leader # follower
         /\ presumes(leader)
         /\ replicas[follower].leader = leader
         /\ replicas[follower].leader_epoch = replicas[leader].leader_epoch)
        => begins_with(replicas[leader].log, replicas[follower].log)

log_matching ==
    \A one, other \in brokers :
        \A i \in DOMAIN replicas[one].log \cap DOMAIN replicas[other].log :
            replicas[one].log[i].epoch = replicas[other].log[i].epoch
            => prefix(replicas[one].log, i) = prefix(replicas[other].log, i)

one_leader_per_epoch ==
    \A one, other \in brokers :
        presumes(one) /\ presumes(other) /\ one # other => replicas[one].leader_epoch # replicas[other].leader_epoch

\* Of a step.
high_watermark_monotonic ==
    \A broker \in brokers :
        LET old == replicas[broker]
            new == replicas'[broker]
        IN  old.leader = broker /\ new.leader = broker /\ old.leader_epoch = new.leader_epoch
            => new.high_watermark >= old.high_watermark
============================================================================
