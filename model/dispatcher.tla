----------------------------- MODULE dispatcher -----------------------------
(***************************************************************************)
(* How messages move between their places while transactions are open,     *)
(* commit, are rolled back, and while the server crashes.                  *)
(*                                                                         *)
(* THEORY OF OPERATION                                                     *)
(*                                                                         *)
(* A message is in exactly one place: a notice that the dispatcher has not *)
(* read, an alarm, scheduled, line, ready, or a lease. The places refer to *)
(* a message by a stub, which is its id and its generation. Whatever ends  *)
(* a stay in a place deletes the message or raises its generation, so an   *)
(* old stub no longer matches: it is void.                                 *)
(*                                                                         *)
(* Sessions run the calls of producers and consumers. A session has at     *)
(* most one transaction open. What that has written is in tx[s], together  *)
(* with the rows that it has locked, until it commits; the committed       *)
(* tables are in db. One more transaction is the dispatcher's (disp). Each *)
(* action of the model is one statement, or a few that no other session    *)
(* can tell apart, so other sessions act between the statements of a call. *)
(*                                                                         *)
(* Nobody but the dispatcher writes line, the backlogs and the tick, and   *)
(* it never waits: it skips rows that others have locked and sets an alarm *)
(* to look again. Consumers skip locked entries of ready, and entries that *)
(* some earlier transaction has locked and then left (touched; in the      *)
(* engine, xmax <> 0): the dispatcher places these again first.            *)
(*                                                                         *)
(* Time is not a number. Messages become due, leases run out, and the      *)
(* second of an alarm passes at any moment. Only the dispatcher acts on    *)
(* that, and it reads the clock once, at its start. So the model decides   *)
(* at the start of each dispatch what has happened by then: all of it,     *)
(* some of it, or nothing.                                                 *)
(*                                                                         *)
(* A create is one step. Until it commits, it locks nothing and no other   *)
(* transaction sees it. But its id may be lower than ids that have been    *)
(* committed before it: here, ids are committed in any order.              *)
(*                                                                         *)
(* A crash takes back the transactions that are open, and any number of    *)
(* the last commits that were asynchronous: disk is the state up to which  *)
(* the log is on the disk. A consumer keeps what it remembers (held).      *)
(*                                                                         *)
(* What can no longer make a difference is dropped from the state, so that *)
(* TLC finds fewer states: see Gone, Remembered, Remaining and Lowered.    *)
(*                                                                         *)
(* The order of a channel is that of its ids. Its shares: each message     *)
(* costs one tag. notices.tla has the proof that each notice is read once, *)
(* in whatever order transactions commit; here, reading takes all          *)
(* committed notices. docs/model.md maps actions to SQL functions.         *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Messages,       \* how many messages; their ids are 1..Messages
    Channels,       \* how many channels
    Sessions,       \* who runs calls
    LeftOpen,       \* sessions that may leave a transaction open for ever
    Later,          \* messages that are created for a later time
    Target,         \* how many entries ready should have
    Batch,          \* how many messages a dequeue takes at most
    Limit,          \* max_concurrency of every channel; 0: none
    MaxAttempts,
    AsyncDequeue,   \* dequeues commit asynchronously
    SlowDequeue,    \* a dequeue may read the tick some time before it takes entries
    Budget          \* how often each disturbance may happen: see Disturbances

Ids == 1..Messages
AllChannels == 1..Channels
ChannelOf(m) == 1 + (m % Channels)
Infinity == 1000                            \* a tag above all others
Disturbances == {"rollback", "crash", "cancel", "reschedule", "extend", "release", "fail", "revive"}

VARIABLES
    db,     \* the committed tables
    tx,     \* the open transaction of each session
    disp,   \* the open transaction of the dispatcher
    clock,  \* what has become due
    disk,   \* what a crash cannot take back
    held,   \* deliveries that consumers know of, with their tokens
    seen,   \* what callers were told, and rules that a call has broken
    left    \* what is left of Budget

vars == <<db, tx, disp, clock, disk, held, seen, left>>

\* ------------------------------------------------------------------ sets
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(S) == CHOOSE x \in S : \A y \in S : x >= y
MinOr(S, other) == IF S = {} THEN other ELSE Min(S)
Stub(m, g) == [m |-> m, g |-> g]
Stubs(S) == {Stub(e.m, e.g) : e \in S}
Key(e) == [m |-> e.m, g |-> e.g, tag |-> e.tag]
Of(S, c) == {e \in S : ChannelOf(e.m) = c}
\* f with the values of rows, which is a set of pairs <<x, value>>.
Put(f, rows) == IF rows = {} THEN f ELSE TLCEval([x \in DOMAIN f |->
    IF \E r \in rows : r[1] = x THEN (CHOOSE r \in rows : r[1] = x)[2] ELSE f[x]])

\* ---------------------------------------------------------------- tables
\* A message: where it is in its life, its generation, the attempts that are used up, and whether it is marked as
\* cancelled. owner is not a column: it is the token of the last dequeue, which the rules compare with.
NoMessage == [is |-> "none", gen |-> 0, attempts |-> 0, mark |-> FALSE, owner |-> 0]
IsAlive(rows, m, g) == rows[m].is = "live" /\ rows[m].gen = g
AliveOf(rows, stubs) == {s \in stubs : IsAlive(rows, s.m, s.g)}
Finished == {"completed", "cancelled", "dead"}

News(kind, m, g) == [kind |-> kind, m |-> m, g |-> g]
Ends(lease) == <<lease.tok, lease.ver>>     \* the end of a lease; an extend gives it another one

EmptyLane == [v |-> 0, floor |-> 0, horizon |-> Infinity, issued |-> 0, lowTag |-> 0, lowId |-> 0, stuck |-> 0]
NoLine == [tag |-> 0, open |-> FALSE]
EmptyDb == [
    message |-> [m \in Ids |-> NoMessage],
    notice |-> {},                          \* those that the tick has not read
    scheduled |-> {}, passed |-> {},        \* passed: stubs of scheduled up to due_to, which have an alarm
    alarm |-> {},
    line |-> {}, backlog |-> [c \in AllChannels |-> NoLine], recent |-> [c \in AllChannels |-> 0],
    ready |-> {}, readyLocked |-> {}, checkLocked |-> 0,
    slots |-> [c \in AllChannels |-> {}],
    lane |-> EmptyLane,
    lease |-> {}, swept |-> {}]             \* swept: the ends that swept_at has passed

Idle == [call |-> "idle", step |-> 0, m |-> 0, g |-> 0, tok |-> 0, lockMessage |-> {}, lockLease |-> {},
    readyDel |-> {}, readyAdd |-> {}, scheduledDel |-> {}, rows |-> {}, notice |-> {}, leaseDel |-> {},
    leaseAdd |-> {}, isAsync |-> FALSE, floor |-> 0, horizon |-> 0]
\* What the dispatcher has changed in the tables that only it writes.
NoNews == [line |-> {}, backlog |-> EmptyDb.backlog, lane |-> EmptyLane, slots |-> EmptyDb.slots, alarm |-> {},
    readyLocked |-> {}, checkLocked |-> 0, passed |-> {}, recent |-> EmptyDb.recent]
IdleDisp == [step |-> "idle", read |-> {}, tx |-> Idle, scheduledAdd |-> {}, swept |-> {},
    new |-> NoNews]

\* What transaction t does to the tables when it commits.
Applied(d, t) == [d EXCEPT
    !.message = Put(@, t.rows),
    !.notice = @ \cup t.notice,
    !.ready = (@ \ t.readyDel) \cup t.readyAdd,
    !.scheduled = @ \ t.scheduledDel,
    !.lease = {l \in @ : l.tok \notin t.leaseDel} \cup t.leaseAdd]

LeasesOf(d, m) == {l \in d.lease : Stub(m, d.message[m].gen) \in l.stubs}

\* The committed state as readers see it: what an open dispatch has read is unread until that commits.
Committed == [db EXCEPT !.notice = @ \cup disp.read]

\* Rows that somebody other than the reader has locked. Nobody is the reader if that is the dispatcher.
Others(s) == {tx[x] : x \in Sessions \ {s}}
Nobody == "nobody"
ReadyLocked(s) == UNION {t.readyDel : t \in Others(s)} \cup (IF s = Nobody THEN {} ELSE disp.tx.readyDel)
ScheduledLocked(s) == UNION {t.scheduledDel : t \in Others(s)} \cup (IF s = Nobody THEN {} ELSE disp.tx.scheduledDel)
MessageLocked(s) == UNION {t.lockMessage : t \in Others(s)} \cup (IF s = Nobody THEN {} ELSE disp.tx.lockMessage)
LeaseLocked(s) == UNION {t.lockLease : t \in Others(s)} \cup (IF s = Nobody THEN {} ELSE disp.tx.lockLease)

\* Rows of ready that a transaction has locked keep its id when it is rolled back, or is lost in a crash.
Touched(entries, by) == (entries \ by) \cup {[e EXCEPT !.touched = TRUE] : e \in entries \cap by}
\* What is on the disk if the log reaches it now. d is committed, t and own are the open transactions: of these, the
\* locks are in the log.
OnDisk(d, t, own) == [d EXCEPT !.notice = @ \cup own.read,
                               !.ready = Touched(@, UNION {t[s].readyDel : s \in Sessions} \cup own.tx.readyDel)]
\* What is on the disk after a commit or rollback that leads to this state. If it is asynchronous, that is decided here
\* for the time until the next one: nothing new, all but this commit, or this commit, too.
IsOnDisk(d, t, own, isAsync) == disk' \in
    IF left.crash = 0 THEN {EmptyDb}          \* there will be no crash
    ELSE {OnDisk(d, t, own)} \cup (IF isAsync THEN {disk, OnDisk(db, tx, disp)} ELSE {})

\* What can no longer make a difference is not part of the state. A finished message has no generation and no owner, and
\* nobody remembers its tokens, unless a dead_retry or a crash can bring it back. Ends of leases are forgotten with their
\* leases.
Gone(is) == [NoMessage EXCEPT !.is = is]
CanRevive == left.revive > 0 \/ \E s \in Sessions : tx[s].call = "revive"
IsOver(d, m) == d.message[m].is \in {"completed", "cancelled"} \/ (d.message[m].is = "dead" /\ ~CanRevive)
Remembered(deliveries, d, onDisk) == {h \in deliveries : ~IsOver(d, h.m) \/ (left.crash > 0 /\ ~IsOver(onDisk, h.m))}
Remaining(ends, d, open) == {x \in ends : \E l \in d.lease \cup UNION {open[s].leaseAdd : s \in Sessions} : Ends(l) = x}

\* ---------------------------------------------------------------- the lane
\* w is the view of the dispatcher while it works: the tables, others (the entries of ready that others have locked)
\* and out (the committed entries that it has deleted).
Free(w) == {e \in w.ready : e.tag >= w.lane.floor /\ ~e.touched /\ e \notin w.others}
Servable(w) == {e \in Free(w) : e.tag <= w.lane.horizon}
ReadyCount(w) == IF Cardinality(Servable(w)) > Target THEN Target ELSE Cardinality(Servable(w))
OpenLines(w) == {c \in AllChannels : Of(w.line, c) /= {} /\ w.backlog[c].open /\ w.backlog[c].tag >= w.lane.v}
FirstTag(w) == MinOr({w.backlog[c].tag : c \in OpenLines(w)}, Infinity)
Before(e, tag, m) == e.tag < tag \/ (e.tag = tag /\ e.m <= m)
\* x is e, or comes before it. Two generations of a message may be in one place; the older one is void.
Nth(stubs, s) == Cardinality({x \in stubs : x.m < s.m \/ (x.m = s.m /\ x.g <= s.g)})
IsAhead(x, e) == x.tag < e.tag \/ (x.tag = e.tag /\ (x.m < e.m \/ (x.m = e.m /\ x.g <= e.g)))
IsLow(w) == /\ w.lane.horizon /= Infinity
            /\ \/ w.lane.lowTag /= 0 /\ w.lane.horizon < w.lane.lowTag
               \/ ~\E e \in Servable(w) : w.lane.lowTag /= 0 /\ Before(e, w.lane.lowTag, w.lane.lowId)
HasRollback(w) == \E e \in w.ready : e.tag >= w.lane.floor /\ e.touched /\ e \notin w.others

View(d, others) == d @@ [others |-> others, out |-> {}]
Room(w, c) == IF Limit = 0 THEN Infinity
              ELSE IF Cardinality(w.slots[c]) >= Limit THEN 0 ELSE Limit - Cardinality(w.slots[c])

\* slots_add: entries of a channel were put into ready. A full list gets an alarm.
SlotsAdded(w, c, stubs) ==
    IF Limit = 0 \/ stubs = {} THEN w
    ELSE LET slots == w.slots[c] \cup stubs IN
         [w EXCEPT !.slots[c] = slots,
            !.alarm = IF Cardinality(slots) >= Limit /\ ~\E a \in @ : a.kind = "channel" /\ a.m = c
                      THEN @ \cup {[kind |-> "channel", m |-> c, g |-> 0, due |-> FALSE]} ELSE @]
SlotsRemoved(w, stubs) == [w EXCEPT !.slots = TLCEval([c \in AllChannels |-> w.slots[c] \ stubs])]

\* slots_prune: free slots of these channels are found, and a list that stays full gets an alarm.
SlotsPruned(w, channels) ==
    IF Limit = 0 THEN w
    ELSE LET slots == TLCEval([c \in AllChannels |->
                IF c \in channels THEN AliveOf(w.message, w.slots[c]) ELSE w.slots[c]])
         IN [w EXCEPT !.slots = slots,
                !.alarm = @ \cup {[kind |-> "channel", m |-> c, g |-> 0, due |-> FALSE] :
                    c \in {c \in channels : Cardinality(slots[c]) >= Limit}}]

\* line_add, line_add_back and backlog_reopen: messages go into the line of a channel.
LineAdded(w, c, stubs, tag, isBack) ==
    IF stubs = {} THEN w
    ELSE LET isEmpty == Of(w.line, c) = {} IN
         [w EXCEPT !.line = @ \cup stubs,
            !.backlog[c] = [
                tag |-> IF isEmpty THEN tag ELSE IF isBack THEN Min({tag, @.tag}) ELSE @.tag,
                open |-> isEmpty \/ @.open]]
AddedBack(w, c, entries, tag) ==
    LET alive == AliveOf(w.message, Stubs(entries))
        added == LineAdded(SlotsRemoved(w, Stubs(entries)), c, alive, tag, TRUE)
    IN IF alive = {} THEN added
       ELSE [added EXCEPT !.backlog[c] = [tag |-> Max({@.tag, w.lane.v}), open |-> TRUE]]
Without(w, entries) == [w EXCEPT !.ready = @ \ entries, !.out = @ \cup (entries \cap db.ready)]

\* ready_withdraw: the entries of a channel behind message m go back into its line, except those that are locked.
Withdrawn(w, c, m) ==
    LET out == {e \in Of(w.ready, c) : e.m > m /\ e.tag >= w.lane.floor /\ e \notin w.others}
    IN IF out = {} THEN w ELSE AddedBack(Without(w, out), c, out, Min({e.tag : e \in out}))

\* ready_reclaim and tags_after_rollback: entries that a rolled-back transaction returned go back to the head of their
\* line, with everything else that their channel has in ready. The turns in which they were taken stay used up.
ReclaimedOf(w, back, c) ==
    LET mine == Of(back, c)
        firstOther == MinOr({FirstTag(w)} \cup {e.tag : e \in Free(w)}, Infinity)
        others == IF firstOther = Infinity THEN w.lane.issued + 1 ELSE firstOther
        raised == [Without(w, mine) EXCEPT !.lane.v = Max({@, others})]
        rest == Withdrawn(raised, c, 0)
        next == IF Of(rest.line, c) /= {} THEN rest.backlog[c].tag
                ELSE Max({e.tag + 1 : e \in mine} \cup {rest.recent[c]})
        above == Cardinality({e \in mine : e.tag > others})
    IN [AddedBack(rest, c, mine, Max({others, next - above})) EXCEPT !.lane.v = w.lane.v]
RECURSIVE ReclaimedAll(_, _, _)
ReclaimedAll(w, back, channels) ==
    IF channels = {} THEN w
    ELSE LET c == Min(channels) IN ReclaimedAll(ReclaimedOf(w, back, c), back, channels \ {c})
Reclaimed(w, back) == ReclaimedAll(w, back, {ChannelOf(e.m) : e \in back})

\* ready_locked_check: entries that an open dequeue has locked for long. Those that were rolled back are placed again.
LockedChecked(w) ==
    IF w.checkLocked /= 2 THEN w
    ELSE LET there == {e \in w.ready : Key(e) \in w.readyLocked}
             checked == Reclaimed(w, there \ w.others)
             still == {Key(e) : e \in there \cap w.others}
         IN [checked EXCEPT !.readyLocked = still, !.checkLocked = IF still = {} THEN 0 ELSE 1]

\* lane_measure: virtual time, the floor, and the horizon as far as it is lower now.
Measured(w) ==
    LET back == {e \in w.ready : e.tag >= w.lane.floor /\ e.touched /\ e \notin w.others}
        r == TLCEval(Reclaimed(w, back))
        locked == {e \in r.ready : e.tag >= r.lane.floor /\ e \in r.others}
        isLong == locked /= {} /\ r.lane.stuck = 2
        free == MinOr({e.tag : e \in Free(r)}, Infinity)
        line == FirstTag(r)
        first == Min({free, line, IF line = Infinity THEN r.lane.issued + 1 ELSE Infinity})
        v == Max({r.lane.v, first})
        low == IF locked = {} \/ isLong THEN Infinity ELSE Min({e.tag : e \in locked})
    IN [r EXCEPT
        !.readyLocked = IF isLong THEN @ \cup {Key(e) : e \in locked} ELSE @,
        !.checkLocked = IF isLong /\ @ = 0 THEN 1 ELSE @,
        !.lane.stuck = IF locked = {} \/ isLong THEN 0 ELSE Max({@, 1}),
        !.lane.v = v,
        !.lane.floor = Min({v, low}),
        !.lane.horizon = Min({@, line})]

\* backlog_reopen: lines of channels in which something has changed, if these may release.
RECURSIVE Reopened(_, _)
Reopened(w, channels) ==
    IF channels = {} THEN w
    ELSE LET c == Min(channels)
             is == Of(w.line, c) /= {} /\ (~w.backlog[c].open \/ w.backlog[c].tag < w.lane.v) /\ Room(w, c) > 0
         IN Reopened(IF is THEN [w EXCEPT !.backlog[c] = [tag |-> Max({@.tag, w.lane.v}), open |-> TRUE]] ELSE w,
                     channels \ {c})

\* channel_states and lane_place: new messages go straight into ready if it is their turn, otherwise into their line.
LastOf(w, c) == LET S == {e \in Of(w.ready, c) : e.tag >= w.lane.floor} IN
    CHOOSE e \in S : \A x \in S : IsAhead(x, e)
State(w, c, entries) ==
    LET first == Min({e.m : e \in Of(entries, c)})
        hasLine == Of(w.line, c) /= {}
        isBehind == hasLine /\ first >= Min({e.m : e \in Of(w.line, c)})
        hasLast == ~isBehind /\ \E e \in Of(w.ready, c) : e.tag >= w.lane.floor
        recent == IF hasLine \/ w.recent[c] < w.lane.v THEN 0 ELSE w.recent[c]
        next == Max({recent} \cup IF hasLast THEN {LastOf(w, c).tag + 1} ELSE {})
    IN [hasLine |-> hasLine, first |-> first, recent |-> recent,
        tag |-> IF next /= 0 /\ next >= w.lane.v THEN next ELSE w.lane.v + 1,
        mark |-> hasLast /\ LastOf(w, c).m > first]
RECURSIVE WithdrawnAll(_, _, _)
WithdrawnAll(w, states, channels) ==
    IF channels = {} THEN w
    ELSE LET c == Min(channels) IN
         WithdrawnAll(IF states[c].mark THEN Withdrawn(w, c, states[c].first) ELSE w, states, channels \ {c})
RECURSIVE PlacedAll(_, _, _, _)
PlacedAll(w, direct, waiting, channels) ==
    IF channels = {} THEN w
    ELSE LET c == Min(channels)
             stubs == Stubs(Of(direct, c))
             rest == Of(waiting, c)
             inReady == SlotsAdded([w EXCEPT !.ready = @ \cup Of(direct, c)], c, stubs)
         IN PlacedAll(LineAdded(inReady, c, Stubs(rest), MinOr({e.tag : e \in rest}, 0), FALSE),
                      direct, waiting, channels \ {c})
Placed(w0, entries) ==
    LET channels == {ChannelOf(e.m) : e \in entries}
        states == TLCEval([c \in channels |-> State(w0, c, entries)])
        w == TLCEval(WithdrawnAll(w0, states, channels))
        hasLine(c) == states[c].hasLine \/ states[c].mark
        nth(e) == Nth(Of(entries, ChannelOf(e.m)), e)
        tagOf(e) == states[ChannelOf(e.m)].tag + nth(e) - 1
        may(e) == ~hasLine(ChannelOf(e.m)) /\ tagOf(e) < w.lane.horizon /\ nth(e) <= Room(w, ChannelOf(e.m))
        nthOfAll(e) == Cardinality({x \in entries : may(x) /\ (tagOf(x) < tagOf(e) \/ (tagOf(x) = tagOf(e) /\ x.m <= e.m))})
        isDirect(e) == may(e) /\ (w.lane.horizon < Infinity \/ nthOfAll(e) <= Target - ReadyCount(w))
        tagged(S) == {[m |-> e.m, g |-> e.g, tag |-> tagOf(e), touched |-> FALSE] : e \in S}
        direct == TLCEval(tagged({e \in entries : isDirect(e)}))
        p == TLCEval(PlacedAll(w, direct, tagged({e \in entries : ~isDirect(e)}), channels))
        isKept(c) == ~hasLine(c) /\ direct /= {} /\
            (w.lane.horizon < Infinity \/ (states[c].recent /= 0 /\ states[c].tag > w.lane.v + 1))
    IN IF entries = {} THEN w0
       ELSE [p EXCEPT
            !.lane.issued = Max({@} \cup {e.tag : e \in direct}),
            !.recent = TLCEval([c \in AllChannels |->
                IF c \in channels /\ isKept(c) /\ \E e \in Of(p.ready, c) : e.tag >= p.lane.floor
                THEN LastOf(p, c).tag + 1
                ELSE IF c \in channels /\ direct /= {} /\ states[c].recent /= 0 THEN 0 ELSE p.recent[c]])]

\* lane_refill: move messages from the lines to ready, lowest tag first, up to the lowest tag that stays in a line.
OrderOf(w, c) == Cardinality({x \in OpenLines(w) :
    w.backlog[x].tag < w.backlog[c].tag \/ (w.backlog[x].tag = w.backlog[c].tag /\ x <= c)})
RECURSIVE RefilledAll(_, _, _, _)
RefilledAll(w, moved, want, channels) ==
    IF channels = {} THEN w
    ELSE LET c == Min(channels)
             mine == Of(moved, c)
             rest == Of(w.line, c) \ Stubs(mine)
             after == IF mine = {} THEN w.backlog[c].tag ELSE Max({e.tag : e \in mine}) + 1
             isOpen == Room(w, c) > Cardinality(mine) /\ rest /= {}
             changed == [w EXCEPT
                !.ready = @ \cup mine,
                !.line = @ \ Stubs(mine),
                !.backlog[c] = IF rest = {} THEN NoLine ELSE [tag |-> after, open |-> isOpen],
                !.recent[c] = IF rest = {} THEN Max({@, after}) ELSE @]
         IN RefilledAll(IF mine = {} /\ want[c] > 0 THEN w ELSE SlotsAdded(changed, c, Stubs(mine)),
                        moved, want, channels \ {c})
Refilled(w, room) ==
    LET front == {c \in OpenLines(w) : OrderOf(w, c) <= room}
        n == Cardinality(front)
        next == MinOr({w.backlog[c].tag : c \in OpenLines(w) \ front}, Infinity)
        part == 1 + (room - n) \div n
        want == TLCEval([c \in front |-> Min({part, Room(w, c)})])
        got == TLCEval(UNION {{[m |-> s.m, g |-> s.g, tag |-> w.backlog[c].tag + Nth(Of(w.line, c), s) - 1, touched |-> FALSE]
                : s \in {s \in Of(w.line, c) : want[c] > 0 /\ Nth(Of(w.line, c), s) <= want[c] + 1}} : c \in front})
        nth(e) == Nth(Of(w.line, ChannelOf(e.m)), Stub(e.m, e.g))
        cut == MinOr({e.tag : e \in {e \in got : nth(e) > part}}, Infinity)
        moved == {e \in got : nth(e) <= want[ChannelOf(e.m)] /\ e.tag <= Min({cut, next})}
        r == RefilledAll(w, moved, want, front)
    IN IF front = {} THEN w
       ELSE [r EXCEPT !.lane.issued = Max({@} \cup {e.tag : e \in moved})]

\* lane_dispatch: all of this in turn, then the new horizon and the entry that tells when to refill again.
LaneDispatched(w0, entries, hinted) ==
    LET hadTouched == \E e \in w0.ready : e.tag >= w0.lane.floor /\ (e.touched \/ e \in w0.others)
        m == TLCEval(Measured(w0))
        o == IF hinted = {} THEN m ELSE
             LET r == TLCEval(Reopened(m, hinted)) IN TLCEval([r EXCEPT !.lane.horizon = Min({@, FirstTag(r)})])
        p == TLCEval(Placed(o, entries))
        waits == Stubs(entries) \ Stubs(p.ready)
        isBlocked == Limit > 0 /\ waits /= {}
        isDone == ~hadTouched /\ FirstTag(m) = Infinity /\ hinted = {} /\ waits = {}
        isRefilled == p.lane.horizon = Infinity \/ IsLow(p) \/ hinted /= {} \/ isBlocked
        room == Target - ReadyCount(p)
        f == IF isRefilled /\ room > 0 THEN TLCEval(Refilled(p, room)) ELSE p
        h == TLCEval([f EXCEPT !.lane.horizon = FirstTag(f)])
        count == ReadyCount(h)
        middle == CHOOSE e \in Free(h) : Cardinality({x \in Free(h) : IsAhead(x, e) /\ x /= e}) = count \div 2
        isLow == count < (Target + 1) \div 2 \/ Cardinality(Free(h)) <= count \div 2
    IN IF isDone THEN [p EXCEPT !.lane.horizon = Infinity]
       ELSE IF isRefilled THEN [h EXCEPT !.lane.lowTag = IF isLow THEN 0 ELSE middle.tag,
                                         !.lane.lowId = IF isLow THEN 0 ELSE middle.m]
       ELSE IF h.lane.horizon < w0.lane.horizon THEN [h EXCEPT !.lane.lowTag = 0, !.lane.lowId = 0]
       ELSE h

\* -------------------------------------------------------- the dispatcher
IsDue(d, time) ==
    \/ d.notice /= {}
    \/ \E a \in d.alarm : a.due
    \/ d.checkLocked = 2
    \/ \E s \in d.scheduled : s.m \in time.due /\ s \notin d.passed
    \/ \E l \in d.lease : Ends(l) \in time.over /\ Ends(l) \notin d.swept
    \/ LET w == View(d, ReadyLocked(Nobody)) IN IsLow(w) \/ HasRollback(w)
    \/ d.lane.stuck = 2

\* What may have happened since the last dispatch, for all that the dispatcher knows: leases have run out, also those
\* that are not committed yet; messages have become due; and the second is over that alarms wait for.
EndsAhead == {Ends(l) : l \in db.lease \cup UNION {tx[s].leaseAdd : s \in Sessions}} \ clock.over
DueAhead == {m \in Ids \ clock.due : db.message[m].is = "live"}
SecondLater == [db EXCEPT !.alarm = {[a EXCEPT !.due = TRUE] : a \in @}, !.checkLocked = IF @ = 1 THEN 2 ELSE @,
                          !.lane.stuck = IF @ = 1 THEN 2 ELSE @]

\* dispatch and dispatch_read: read the clock, take the lock, and read the notices in one snapshot.
DispatchAt(d, time) ==
    /\ disp.step = "idle"
    /\ IsDue(d, time)
    /\ disp' = [disp EXCEPT !.step = "read", !.read = db.notice]
    /\ db' = [d EXCEPT !.notice = {}]
    /\ clock' = time
DispatchRead ==
    /\ \E ends \in SUBSET EndsAhead, due \in SUBSET DueAhead, d \in {db, SecondLater} :
        DispatchAt(d, [due |-> clock.due \cup due, over |-> clock.over \cup ends])
    /\ UNCHANGED <<tx, disk, held, seen, left>>
\* The same after a long time: all that can happen has happened.
TimeLater == [due |-> clock.due \cup DueAhead, over |-> clock.over \cup EndsAhead]
DispatchReadLate == DispatchAt(SecondLater, TimeLater)

\* leases_sweep: the leases that ran out, as far as nobody has locked them. What is locked is looked at again later.
Swept(w) ==
    LET over == {l \in w.lease : Ends(l) \in clock.over /\ Ends(l) \notin w.swept}
        mine == {l \in over : l.tok \notin LeaseLocked(Nobody)}
        theirs == over \ mine
        alive == UNION {AliveOf(w.message, l.stubs) : l \in mine}
        back == {s \in alive : s.m \notin MessageLocked(Nobody)}
        kept == {[l EXCEPT !.stubs = AliveOf(w.message, @) \ back] : l \in mine}
        row(s) == LET r == w.message[s.m] IN
            IF r.mark THEN Gone("cancelled")
            ELSE IF r.attempts + 1 >= MaxAttempts THEN [r EXCEPT !.is = "dead", !.attempts = @ + 1]
            ELSE [r EXCEPT !.gen = @ + 1, !.attempts = @ + 1]
        rows == {<<s.m, row(s)>> : s \in back}
        stay == {l \in kept : l.stubs /= {}}
    IN [rows |-> rows,
        entries |-> {Stub(r[1], r[2].gen) : r \in {r \in rows : r[2].is = "live"}},
        freed |-> {ChannelOf(s.m) : s \in back},
        leaseDel |-> {l.tok : l \in mine},
        leaseAdd |-> stay,
        \* A lease that stays ends one second later. All other ends are passed, also those that nobody sees yet.
        over |-> clock.over \ {Ends(l) : l \in stay},
        swept |-> clock.over \ {Ends(l) : l \in stay},
        alarm |-> {[kind |-> "lease", m |-> l.tok, g |-> l.ver, due |-> FALSE] : l \in theirs}]

\* dispatch_work, first part: what there is to place, and which alarms, slots and lines change before. read: the notices
\* that were read; sweep: see Swept.
Gathered(read, sweep) ==
    LET due == {a \in db.alarm : a.due}
        alive(kind) == AliveOf(db.message, {Stub(n.m, n.g) : n \in {n \in read : n.kind = kind}})
        setAside == alive("locked")
        woken == AliveOf(db.message, {Stub(a.m, a.g) : a \in {a \in due : a.kind = "message"}})
        wokenLocked == {s \in woken : s.m \in MessageLocked(Nobody)}
        onTime == {s \in db.scheduled : s.m \in clock.due /\ s \notin db.passed}
                  \cup (db.scheduled \cap {Stub(a.m, a.g) : a \in {a \in due : a.kind = "scheduled"}})
        taken == onTime \ ScheduledLocked(Nobody)
        entries == alive("new") \cup alive("back") \cup (woken \ wokenLocked) \cup taken \cup sweep.entries
        gone == {Stub(n.m, n.g) : n \in {n \in read : n.kind = "gone"}}
        others == ReadyLocked(Nobody)
        void == {e \in db.ready : Stub(e.m, e.g) \in gone /\ e.tag >= db.lane.floor /\ e \notin others}
        line == db.line \ gone              \* entries_remove
    IN [taken |-> taken,
        entries |-> {s \in entries : s.m \in clock.due},
        scheduledAdd |-> {s \in entries : s.m \notin clock.due},
        hinted |-> {n.m : n \in {n \in read : n.kind = "slot"}} \cup sweep.freed
                   \cup {a.m : a \in {a \in due : a.kind = "channel"}},
        view |-> [View(db, others) EXCEPT
            !.message = Put(@, sweep.rows),
            !.line = line,
            !.backlog = [c \in AllChannels |-> IF Of(line, c) = {} THEN NoLine ELSE db.backlog[c]],
            !.ready = @ \ void, !.out = void,
            !.alarm = (@ \ due) \cup sweep.alarm
                \cup {[kind |-> "message", m |-> s.m, g |-> s.g, due |-> FALSE] : s \in setAside \cup wokenLocked}
                \cup {[kind |-> "scheduled", m |-> s.m, g |-> s.g, due |-> FALSE] : s \in onTime \ taken},
            !.passed = ((@ \cup (onTime \ taken)) \ taken) \cap db.scheduled,
            !.slots = [c \in AllChannels |-> db.slots[c] \ (setAside \cup alive("back"))]]]

\* dispatch_work: gather, place and refill. \E x \in {value} gives a value a name, and makes TLC compute it once.
DispatchWork ==
    /\ disp.step = "read"
    /\ \E sweep \in {Swept([db EXCEPT !.swept = @ \ (
            {<<n.m, n.g>> : n \in {n \in disp.read : n.kind = "lease"}}
            \cup {<<a.m, a.g>> : a \in {a \in db.alarm : a.due /\ a.kind = "lease"}})])} :
       \E g \in {Gathered(disp.read, sweep)} :
       \E before \in {LockedChecked(SlotsPruned(g.view, g.hinted))} :
       \E w \in {LaneDispatched(before, g.entries, g.hinted)} :
          /\ disp' = [disp EXCEPT
                !.step = "done",
                !.tx = [Idle EXCEPT
                    !.lockMessage = {r[1] : r \in sweep.rows},
                    !.lockLease = sweep.leaseDel,
                    !.rows = sweep.rows,
                    !.leaseDel = sweep.leaseDel, !.leaseAdd = sweep.leaseAdd,
                    !.readyDel = w.out, !.readyAdd = w.ready \ (db.ready \ w.out),
                    !.scheduledDel = g.taken,
                    !.isAsync = ~\E r \in sweep.rows : r[2].is \in Finished],
                !.scheduledAdd = g.scheduledAdd,
                !.swept = sweep.swept,
                !.new = [line |-> w.line, backlog |-> w.backlog, lane |-> w.lane, slots |-> w.slots,
                    alarm |-> w.alarm, readyLocked |-> w.readyLocked, checkLocked |-> w.checkLocked,
                    passed |-> w.passed,
                    \* tags that virtual time has passed are of no use
                    recent |-> [c \in AllChannels |-> IF w.recent[c] < w.lane.v THEN 0 ELSE w.recent[c]]]]
          /\ clock' = [clock EXCEPT !.over = sweep.over]
    /\ UNCHANGED <<db, tx, disk, held, seen, left>>

\* What the dispatcher commits: the tables that only it writes, and its changes to the others.
Dispatched ==
    LET n == disp.new IN
    [Applied(db, disp.tx) EXCEPT
        !.line = n.line, !.backlog = n.backlog, !.recent = n.recent, !.lane = n.lane, !.slots = n.slots,
        !.alarm = n.alarm, !.readyLocked = n.readyLocked, !.checkLocked = n.checkLocked, !.passed = n.passed,
        !.scheduled = @ \cup disp.scheduledAdd,
        !.swept = disp.swept]

\* Only the differences between tags matter. So tags are lowered such that the floor is 1, and TLC finds fewer states.
\* 0 says that there is no tag. (Before a crash, tags are left as they are: those on the disk are older.)
Lower(tag, by) == IF tag = 0 \/ tag = Infinity THEN tag ELSE tag - by
LowerAll(S, by) == {[e EXCEPT !.tag = @ - by] : e \in S}
LowerBy(d) == IF left.crash > 0 \/ d.lane.floor = 0 THEN 0 ELSE d.lane.floor - 1
Lowered(d, by) == IF by = 0 THEN d ELSE [d EXCEPT
    !.ready = LowerAll(@, by), !.readyLocked = LowerAll(@, by),
    !.recent = [c \in AllChannels |-> Lower(@[c], by)],
    !.backlog = [c \in AllChannels |-> IF Of(d.line, c) = {} THEN @[c] ELSE [@[c] EXCEPT !.tag = @ - by]],
    !.lane = [@ EXCEPT !.v = @ - by, !.floor = @ - by, !.issued = @ - by,
                       !.horizon = Lower(@, by), !.lowTag = Lower(@, by)]]

DispatchCommit ==
    /\ disp.step = "done"
    /\ \E d \in {Dispatched} : \E by \in {LowerBy(d)} :
          /\ db' = Lowered([d EXCEPT !.swept = Remaining(@, d, tx)], by)
          /\ tx' = IF by = 0 THEN tx ELSE [s \in Sessions |-> [tx[s] EXCEPT
                !.readyDel = LowerAll(@, by), !.floor = Lower(@, by), !.horizon = Lower(@, by)]]
          /\ clock' = [clock EXCEPT !.over = Remaining(@, d, tx)]
    /\ disp' = IdleDisp
    /\ IsOnDisk(db', tx', disp', disp.tx.isAsync)
    /\ held' = Remembered(held, db', disk')
    /\ UNCHANGED <<seen, left>>

DispatchRollback ==
    /\ disp.step /= "idle"
    /\ left.rollback > 0
    /\ left' = [left EXCEPT !.rollback = @ - 1]
    /\ db' = [Committed EXCEPT !.ready = Touched(@, disp.tx.readyDel)]
    /\ disp' = IdleDisp
    /\ IsOnDisk(db', tx, disp', TRUE)
    /\ UNCHANGED <<tx, clock, held, seen>>

Dispatcher == DispatchRead \/ DispatchWork \/ DispatchCommit \/ DispatchRollback

\* -------------------------------------------------------------- the calls
Begin(s, t) == tx' = [tx EXCEPT ![s] = t]
Use(what) == left[what] > 0 /\ left' = [left EXCEPT ![what] = @ - 1]
Tells(channels) == IF Limit = 0 THEN {} ELSE {News("slot", c, 0) : c \in channels}

\* message_create: the message, and a notice. It is one step: see the theory of operation.
Create(m) ==
    /\ db.message[m].is = "none"
    /\ db' = [db EXCEPT !.message[m].is = "live", !.notice = @ \cup {News("new", m, 0)}]
    /\ IsOnDisk(db', tx, disp, FALSE)
    /\ seen' = [seen EXCEPT !.created = @ \cup {m}]
    /\ UNCHANGED <<tx, disp, clock, held, left>>

CreateRollback(m) ==
    /\ db.message[m].is = "none"
    /\ Use("rollback")
    /\ db' = [db EXCEPT !.message[m].is = "never"]
    /\ IsOnDisk(db', tx, disp, FALSE)
    /\ UNCHANGED <<tx, disp, clock, held, seen>>

\* Tokens are random numbers. Here the lowest number that nobody knows is as good.
Tokens == {l.tok : l \in db.lease} \cup {h.tok : h \in held} \cup {x[1] : x \in db.swept \cup clock.over}
         \cup UNION {{l.tok : l \in tx[s].leaseAdd} : s \in Sessions}
         \cup {db.message[m].owner : m \in Ids}
         \cup (IF left.crash > 0 THEN {l.tok : l \in disk.lease} \cup {disk.message[m].owner : m \in Ids} ELSE {})
NewToken == Min((1..(Cardinality(Tokens) + 1)) \ Tokens)

\* message_dequeue: look at the messages of the entries that transaction t has taken. Those that were cancelled are void;
\* those that are locked are set aside (ready_skip); the others are leased (lease_write).
Looks(s, t) ==
    LET entries == Stubs(t.readyDel)
        alive == AliveOf(db.message, entries)
        locked == {e \in alive : e.m \in MessageLocked(s)}
        served == alive \ locked
        lease == [tok |-> NewToken, ver |-> 0, stubs |-> served]
        early == {e \in served : e.m \notin clock.due}
    IN /\ Begin(s, [t EXCEPT !.step = 2, !.tok = IF served = {} THEN 0 ELSE lease.tok,
            !.leaseAdd = IF served = {} THEN {} ELSE {lease},
            !.notice = {News("locked", e.m, e.g) : e \in locked}
                \cup Tells({ChannelOf(e.m) : e \in entries \ served})
                \cup (IF served = {} THEN {} ELSE {News("lease", lease.tok, 0)}),
            !.isAsync = AsyncDequeue /\ Limit = 0])
       /\ seen' = IF early = {} THEN seen ELSE [seen EXCEPT !.broken = @ \cup {9}]

\* The message of an entry in ready has no lease. Only a cancel or a reschedule can lock or change it, so without these
\* it makes no difference when a dequeue looks at it, and TLC finds fewer states if it looks at once.
CanWithdraw == left.cancel + left.reschedule > 0 \/ \E s \in Sessions : tx[s].call \in {"cancel", "reschedule"}

\* message_dequeue, first statement: read the tick. That only matters if a dispatch commits before the next statement,
\* so otherwise both are one step.
DequeueBegin(s) ==
    /\ SlowDequeue
    /\ tx[s].call = "idle" /\ disp.step = "done"
    /\ Begin(s, [Idle EXCEPT !.call = "dequeue", !.floor = db.lane.floor, !.horizon = db.lane.horizon])
    /\ UNCHANGED <<db, disp, clock, disk, held, seen, left>>

\* ready_take: lock the first entries that can be served.
DequeueTake(s) ==
    /\ tx[s].call = "idle" \/ (tx[s].call = "dequeue" /\ tx[s].step = 0)
    /\ LET tick == IF tx[s].call = "idle" THEN db
                   ELSE [db EXCEPT !.lane.floor = tx[s].floor, !.lane.horizon = tx[s].horizon]
           S == Servable(View(tick, ReadyLocked(s)))
           first == {e \in S : Cardinality({x \in S : IsAhead(x, e)}) <= Batch}
           t == [Idle EXCEPT !.call = "dequeue", !.step = 1, !.readyDel = first]
       IN /\ S /= {}
          /\ IF CanWithdraw THEN Begin(s, t) /\ UNCHANGED seen ELSE Looks(s, t)
    /\ UNCHANGED <<db, disp, clock, disk, held, left>>

\* The next statement looks at the messages.
DequeueRead(s) ==
    /\ tx[s].call = "dequeue" /\ tx[s].step = 1
    /\ Looks(s, tx[s])
    /\ UNCHANGED <<db, disp, clock, disk, held, left>>

\* The lease that a consumer shows with its token, and whether that is the current one.
LeaseOf(h) == {l \in db.lease : l.tok = h.tok /\ \E x \in l.stubs : x.m = h.m /\ IsAlive(db.message, x.m, x.g)}

\* lease_close: whether the row of a lease can be deleted, because no other message is left in it.
Closes(l, m) == \A x \in l.stubs : x.m = m \/ (Max({y.m : y \in l.stubs}) = m /\ ~IsAlive(db.message, x.m, x.g))

\* A finishing call has locked the message. It needs the row of the lease only if it deletes that.
Settle(s, h, call, row, notice) ==
    \E l \in LeaseOf(h) :
        /\ h.m \notin MessageLocked(s)
        /\ Closes(l, h.m) => l.tok \notin LeaseLocked(s)
        /\ Begin(s, [Idle EXCEPT !.call = call, !.m = h.m, !.tok = h.tok, !.lockMessage = {h.m},
                !.lockLease = IF Closes(l, h.m) THEN {l.tok} ELSE {},
                !.leaseDel = IF Closes(l, h.m) THEN {l.tok} ELSE {},
                !.rows = {<<h.m, row>>}, !.notice = notice \cup Tells({ChannelOf(h.m)})])
        /\ seen' = IF db.message[h.m].owner = h.tok THEN seen ELSE [seen EXCEPT !.broken = @ \cup {5}]

\* message_complete, and message_discard, which differs in the history only.
Complete(s, h) ==
    /\ tx[s].call = "idle"
    /\ LET r == db.message[h.m] IN
       Settle(s, h, "complete", Gone(IF r.mark THEN "cancelled" ELSE "completed"), {})
    /\ UNCHANGED <<db, disp, clock, disk, held, left>>

\* message_retry: after a failure ("fail"), which uses up an attempt, or unharmed ("release").
Retry(s, h, how) ==
    /\ tx[s].call = "idle"
    /\ LET r == db.message[h.m]
           attempts == IF how = "fail" THEN r.attempts + 1 ELSE r.attempts
           after == IF r.mark THEN Gone("cancelled")
                    ELSE IF how = "fail" /\ attempts >= MaxAttempts THEN [r EXCEPT !.is = "dead", !.attempts = attempts]
                    ELSE [r EXCEPT !.gen = @ + 1, !.attempts = attempts]
       IN Settle(s, h, "retry", after, IF after.is = "live" THEN {News("back", h.m, after.gen)} ELSE {})
    /\ Use(how)
    /\ UNCHANGED <<db, disp, clock, disk, held>>

\* message_extend: the lease gets a later end, and a notice says so.
Extend(s, h) ==
    /\ tx[s].call = "idle"
    /\ \E l \in LeaseOf(h) :
        /\ l.tok \notin LeaseLocked(s)
        /\ ~db.message[h.m].mark
        /\ LET new == [l EXCEPT !.ver = @ + 1, !.stubs = AliveOf(db.message, @)] IN
           Begin(s, [Idle EXCEPT !.call = "extend", !.lockLease = {l.tok}, !.leaseDel = {l.tok}, !.leaseAdd = {new},
                                 !.notice = {News("lease", new.tok, new.ver)}])
    /\ Use("extend")
    /\ UNCHANGED <<db, disp, clock, disk, held, seen>>

\* message_cancel and message_reschedule (call), step by step. First they lock the message.
WithdrawLock(s, m, call) ==
    /\ tx[s].call = "idle"
    /\ db.message[m].is = "live"
    /\ m \notin MessageLocked(s)
    /\ Use(call)
    /\ Begin(s, [Idle EXCEPT !.call = call, !.step = 1, !.m = m, !.g = db.message[m].gen, !.lockMessage = {m}])
    /\ UNCHANGED <<db, disp, clock, disk, held, seen>>

\* What becomes of a message that waited: it is gone, or comes back with a new generation at a new time.
Waited(t) == LET r == db.message[t.m] IN
    IF t.call = "cancel" THEN [t EXCEPT !.step = 3, !.rows = {<<t.m, Gone("cancelled")>>},
                                        !.notice = @ \cup Tells({ChannelOf(t.m)})]
    ELSE [t EXCEPT !.step = 3, !.rows = {<<t.m, [r EXCEPT !.gen = @ + 1]>>},
                   !.notice = @ \cup {News("back", t.m, r.gen + 1)} \cup Tells({ChannelOf(t.m)})]

\* message_withdraw and entries_delete: delete the entry in scheduled or ready. They wait for whoever has locked it.
EntriesInReady(s) == {e \in db.ready : Stub(e.m, e.g) = Stub(tx[s].m, tx[s].g)
                                      /\ (e.tag >= db.lane.floor \/ Key(e) \in db.readyLocked)}
EntriesInScheduled(s) == db.scheduled \cap {Stub(tx[s].m, tx[s].g)}
FindsUnlocked(s) == EntriesInReady(s) \cap ReadyLocked(s) = {} /\ EntriesInScheduled(s) \cap ScheduledLocked(s) = {}
WithdrawFind(s) ==
    /\ tx[s].call \in {"cancel", "reschedule"} /\ tx[s].step = 1
    /\ FindsUnlocked(s)
    /\ Begin(s, IF EntriesInReady(s) \cup EntriesInScheduled(s) = {} THEN [tx[s] EXCEPT !.step = 2]
                ELSE Waited([tx[s] EXCEPT !.readyDel = EntriesInReady(s), !.scheduledDel = EntriesInScheduled(s)]))
    /\ UNCHANGED <<db, disp, clock, disk, held, seen, left>>

\* The next statement looks for a lease. A leased message is marked, or left alone. Any other is in a line or not placed
\* yet, and a notice has it removed from there.
WithdrawLease(s) ==
    /\ tx[s].call \in {"cancel", "reschedule"} /\ tx[s].step = 2
    /\ LET stub == Stub(tx[s].m, tx[s].g)
           r == db.message[stub.m]
           isLeased == \E l \in db.lease : stub \in l.stubs
       IN Begin(s, IF ~isLeased THEN Waited([tx[s] EXCEPT !.notice = {News("gone", stub.m, stub.g)}])
                   ELSE IF tx[s].call = "cancel" THEN [tx[s] EXCEPT !.step = 3, !.rows = {<<stub.m, [r EXCEPT !.mark = TRUE]>>}]
                   ELSE [tx[s] EXCEPT !.step = 3])
    /\ UNCHANGED <<db, disp, clock, disk, held, seen, left>>

\* dead_retry: a dead message lives again. It continues its generations, so that old tokens do not match.
Revive(s, m) ==
    /\ tx[s].call = "idle"
    /\ db.message[m].is = "dead"
    /\ m \notin MessageLocked(s)
    /\ Use("revive")
    /\ LET r == [db.message[m] EXCEPT !.is = "live", !.gen = @ + 1, !.attempts = 0] IN
       Begin(s, [Idle EXCEPT !.call = "revive", !.m = m, !.lockMessage = {m}, !.rows = {<<m, r>>},
                             !.notice = {News("back", m, r.gen)}])
    /\ UNCHANGED <<db, disp, clock, disk, held, seen>>

\* ----------------------------------------------------- ends of transactions
IsComplete(t) == t.call \in {"complete", "retry", "extend", "revive"}
                 \/ (t.call = "dequeue" /\ t.step = 2) \/ (t.call \in {"cancel", "reschedule"} /\ t.step = 3)

Commit(s) ==
    /\ IsComplete(tx[s])
    /\ LET t == tx[s]
           got == UNION {l.stubs : l \in t.leaseAdd}
           d == Applied(db, t)
           owned == IF t.call /= "dequeue" THEN d
                    ELSE [d EXCEPT !.message = [m \in Ids |-> IF \E x \in got : x.m = m THEN [@[m] EXCEPT !.owner = t.tok] ELSE @[m]]]
           open == [tx EXCEPT ![s] = Idle]
       IN /\ db' = [owned EXCEPT !.swept = Remaining(@, owned, open)]
          /\ tx' = open
          /\ IsOnDisk(db', open, disp, t.isAsync)
          /\ held' = Remembered(IF t.call = "dequeue" THEN held \cup {[m |-> x.m, tok |-> t.tok] : x \in got} ELSE held,
                                db', disk')
          /\ clock' = [clock EXCEPT !.over = Remaining(@, owned, open)]
          /\ seen' = [seen EXCEPT
                !.completed = IF t.call = "complete" THEN @ \cup {t.m} ELSE @,
                !.broken = @ \cup
                    \* served although it was cancelled or rescheduled, or the other way round
                    (IF t.call = "dequeue" /\ AliveOf(db.message, got) /= got THEN {3} ELSE {}) \cup
                    (IF t.call \in {"cancel", "reschedule"} /\ LeasesOf(db, t.m) /= {}
                        /\ ~IsAlive(owned.message, t.m, t.g) THEN {3} ELSE {}) \cup
                    (IF t.call = "complete" /\ t.m \in seen.completed THEN {6} ELSE {})]
    /\ UNCHANGED <<disp, left>>

\* The transaction is rolled back, or its session is terminated, after any of its statements.
Rollback(s) ==
    /\ tx[s].call /= "idle" /\ (tx[s].call = "dequeue" => tx[s].step > 0)
    /\ Use("rollback")
    /\ tx' = [tx EXCEPT ![s] = Idle]
    /\ db' = [db EXCEPT !.ready = Touched(@, tx[s].readyDel), !.swept = Remaining(@, db, tx')]
    /\ clock' = [clock EXCEPT !.over = Remaining(@, db, tx')]
    /\ IsOnDisk(db', tx', disp, TRUE)
    /\ UNCHANGED <<disp, held, seen>>

\* ---------------------------------------------------------------- crashes
\* The server crashes and starts again. The log may have reached the disk just before.
Crash ==
    /\ Use("crash")
    /\ tx' = [s \in Sessions |-> Idle]
    /\ disp' = IdleDisp
    /\ \E d \in {disk, OnDisk(db, tx, disp)} :
          /\ db' = [d EXCEPT !.swept = Remaining(@, d, tx')]
          /\ clock' = [clock EXCEPT !.over = Remaining(@, d, tx')]
          /\ disk' = IF left'.crash > 0 THEN db' ELSE EmptyDb
    /\ UNCHANGED <<held, seen>>

\* ------------------------------------------------------------ the behaviour
Init ==
    /\ db = EmptyDb /\ tx = [s \in Sessions |-> Idle] /\ disp = IdleDisp
    /\ clock = [due |-> Ids \ Later, over |-> {}]
    /\ disk = EmptyDb
    /\ held = {}
    /\ seen = [created |-> {}, completed |-> {}, broken |-> {}]
    /\ left = Budget

Call(s) ==
    \/ DequeueBegin(s) \/ DequeueTake(s) \/ DequeueRead(s)
    \/ \E h \in held : Complete(s, h) \/ Retry(s, h, "fail") \/ Retry(s, h, "release") \/ Extend(s, h)
    \/ \E m \in Ids : WithdrawLock(s, m, "cancel") \/ WithdrawLock(s, m, "reschedule")
    \/ WithdrawFind(s) \/ WithdrawLease(s)
    \/ \E m \in Ids : Revive(s, m)
    \/ Commit(s) \/ Rollback(s)

Next ==
    \/ Dispatcher
    \/ \E s \in Sessions : Call(s)
    \/ \E m \in Ids : Create(m) \/ CreateRollback(m)
    \/ Crash

\* Somebody asks: sessions go on dequeuing, and whoever dequeues dispatches. Transactions end, except those of sessions
\* that may leave one open. Leases run out, and time passes. This is weak fairness of the steps of the dispatcher and of
\* the sessions, and strong fairness of DispatchReadLate, because other dispatches may come between. It is written with
\* the states in which these steps are enabled, because TLC takes long to find out what ENABLED says.
CanDequeue(s) == tx[s].call = "idle" /\ Servable(View(db, ReadyLocked(s))) /= {}
MustWait(s) == tx[s].call \in {"cancel", "reschedule"} /\ tx[s].step = 1 /\ ~FindsUnlocked(s)
Fairness ==
    /\ []<>(disp.step = "idle")
    /\ <>[]~(disp.step = "idle" /\ IsDue(SecondLater, TimeLater)) \/ []<><<DispatchReadLate>>_vars
    /\ \A s \in Sessions \ LeftOpen : []<>~CanDequeue(s) /\ []<>(tx[s].call = "idle" \/ MustWait(s))

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ Fairness

\* ------------------------------------------------------------------ rules
\* The numbers are those of the invariants in tests/invariants.py.
PlacesOf(d, m) == LET s == Stub(m, d.message[m].gen) IN
      {[in |-> n.kind] : n \in {n \in d.notice : n.kind \in {"new", "back", "locked"} /\ Stub(n.m, n.g) = s}}
    \cup {[in |-> "alarm"] : a \in {a \in d.alarm : a.kind = "message" /\ Stub(a.m, a.g) = s}}
    \cup {[in |-> "scheduled"] : x \in d.scheduled \cap {s}}
    \cup {[in |-> "line"] : x \in d.line \cap {s}}
    \cup {[in |-> "ready", tag |-> e.tag] : e \in {e \in d.ready : Stub(e.m, e.g) = s}}
    \cup {[in |-> "leased", tok |-> l.tok] : l \in LeasesOf(d, m)}

\* 1: what was created stays stored until it is finished. 2: what was rolled back never appears.
NothingVanishes == \A m \in seen.created : db.message[m].is \in Finished \cup {"live"}
RolledBackNeverSeen == \A m \in Ids : db.message[m].is = "never" => m \notin {h.m : h \in held}
\* 3: what was cancelled while it waited is not delivered, and nothing of an old generation.
NothingElseDelivered == 3 \notin seen.broken
\* 4: at most one live lease. 5: only the current token. 6: nothing is completed twice. 9: not before its time.
OneLease == \A m \in Ids : db.message[m].is = "live" => Cardinality(LeasesOf(db, m)) <= 1
OnlyCurrentToken == 5 \notin seen.broken
CompletedOnce == 6 \notin seen.broken
NeverEarly == 9 \notin seen.broken
\* 7: the live leases of a channel stay within its limit, and so do its entries in ready together with them.
WithinLimit == Limit > 0 => \A c \in AllChannels :
    Cardinality({m \in Ids : ChannelOf(m) = c /\ db.message[m].is = "live" /\
        \E p \in PlacesOf(db, m) : p.in \in {"leased", "ready"}}) <= Limit
\* 8, 11: within a channel, the order is kept between ready and the line, and within ready.
InOrder == LET live == {e \in db.ready : IsAlive(db.message, e.m, e.g) /\ ~e.touched
                            /\ e \notin ReadyLocked(Nobody) \cup disp.tx.readyDel} IN
    /\ \A e, f \in live : ChannelOf(e.m) = ChannelOf(f.m) /\ e.tag < f.tag => e.m < f.m
    /\ \A e \in live, x \in AliveOf(db.message, db.line) : ChannelOf(e.m) = ChannelOf(x.m) => e.m < x.m
\* 13: dequeues take nothing above a line that may release, and nothing is hidden below the floor.
HorizonHolds == \A c \in AllChannels : Of(db.line, c) /= {} /\ db.backlog[c].open => db.backlog[c].tag >= db.lane.horizon
FloorHolds == \A e \in db.ready : e.tag >= db.lane.floor \/ Key(e) \in db.readyLocked
\* 14: a message is dead exactly at the limit of attempts.
DeadAtTheLimit == \A m \in Ids : db.message[m].is \in {"live", "dead"} =>
    (db.message[m].is = "dead") = (db.message[m].attempts >= MaxAttempts)
\* 20: a message is in exactly one place, in every snapshot.
OnePlace == \A m \in Ids : db.message[m].is = "live" => Cardinality(PlacesOf(Committed, m)) = 1

\* 13: what is due is served while somebody asks. Attempts are bounded, so in the end all messages are finished. What a
\* transaction that is left open has locked is excepted.
IsHeldOpen(m) == \E s \in LeftOpen :
    \/ m \in tx[s].lockMessage \/ tx[s].m = m \/ \E e \in tx[s].readyDel \cup tx[s].scheduledDel : e.m = m
    \/ \E l \in db.lease : l.tok \in tx[s].lockLease /\ \E x \in l.stubs : x.m = m
AllServed == <>[](\A m \in Ids : db.message[m].is \in Finished \cup {"never", "none"} \/ IsHeldOpen(m))
\* 17: after a drain nothing is left.
AllDrained == <>[]((\A s \in Sessions : tx[s].call = "idle") =>
    db.notice \cup db.lease \cup db.line \cup db.ready \cup db.scheduled \cup db.readyLocked = {})
=============================================================================
