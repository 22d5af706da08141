------------------------------- MODULE notices ------------------------------
(***************************************************************************)
(* How the dispatcher reads each notice exactly once, although             *)
(* transactions do not commit in the order in which they write.            *)
(*                                                                         *)
(* THEORY OF OPERATION                                                     *)
(*                                                                         *)
(* A transaction gets its number (xid) with the first thing that it        *)
(* writes, and may commit much later. A notice carries the xid of its      *)
(* transaction and an id that rises. "All notices above the last one"      *)
(* would miss those of transactions that were open meanwhile. So the tick  *)
(* says: the notices up to (seenXid, seenId) are read, except those of the *)
(* transactions in open, which are read up to the id that is given there.  *)
(*                                                                         *)
(* A dispatch takes a snapshot, reads what that sees and the tick does     *)
(* not, at most Limit notices of each kind, and writes a new tick. It may  *)
(* run in a transaction that has appended notices before and appends more  *)
(* afterwards, it may dispatch twice in it, and it may be rolled back.     *)
(***************************************************************************)
EXTENDS Integers, FiniteSets

CONSTANTS
    Transactions,   \* how many; each may append notices and dispatch
    Notices,        \* how many notices there are at most
    Limit           \* how many notices a dispatch reads

VARIABLES
    status,         \* the transactions so far, by xid: "open", "committed" or "aborted"
    notice,         \* the notices, committed or not
    tick,           \* the committed tick
    read,           \* the notices that committed dispatches have read
    twice,          \* whether one of them was read again
    disp            \* the open transaction that dispatches

vars == <<status, notice, tick, read, twice, disp>>

Max(S) == CHOOSE x \in S : \A y \in S : x >= y
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Xids == 1..Transactions
Open == {x \in Xids : status[x] = "open"}
NextXid == Cardinality({x \in Xids : status[x] /= "none"}) + 1
None == [xid |-> 0, tick |-> <<>>, read |-> {}]

\* The order of (xid, id).
After(n, xid, id) == n.xid > xid \/ (n.xid = xid /\ n.id > id)
FirstOf(S, limit) == {n \in S : Cardinality({x \in S : After(n, x.xid, x.id)}) < limit}

Init ==
    /\ status = [x \in Xids |-> "none"]
    /\ notice = {}
    /\ tick = [seenXid |-> 1, seenId |-> 0, open |-> {}]
    /\ read = {} /\ twice = FALSE
    /\ disp = None

\* A transaction writes for the first time, and thereby gets its xid.
Begin ==
    /\ NextXid \in Xids
    /\ status' = [status EXCEPT ![NextXid] = "open"]
    /\ UNCHANGED <<notice, tick, read, twice, disp>>

\* Any open transaction appends a notice, also the one that dispatches.
Append(x) ==
    /\ status[x] = "open" /\ Cardinality(notice) < Notices
    /\ notice' = notice \cup {[xid |-> x, id |-> Cardinality(notice) + 1]}
    /\ UNCHANGED <<status, tick, read, twice, disp>>

Commit(x) ==
    /\ status[x] = "open" /\ x /= disp.xid
    /\ status' = [status EXCEPT ![x] = "committed"]
    /\ UNCHANGED <<notice, tick, read, twice, disp>>

Abort(x) ==
    /\ status[x] = "open" /\ x /= disp.xid
    /\ status' = [status EXCEPT ![x] = "aborted"]
    /\ UNCHANGED <<notice, tick, read, twice, disp>>

\* notice_read: own is the transaction that dispatches; its snapshot does not list it as open.
Visible(n, own) == n.xid = own \/ status[n.xid] = "committed"
Newer(t, own) == FirstOf({n \in notice : Visible(n, own) /\ After(n, t.seenXid, t.seenId)}, Limit)
Late(t, own) == UNION {FirstOf({n \in notice : Visible(n, own) /\ n.xid = o.xid /\ n.id > o.id}, Limit) :
                       o \in {o \in t.open : o.xid \notin Open \ {own}}}

\* tick_open_transactions: those that were open or only partly read, those that are open now, and the caller's own.
OpenAfter(t, own, seenXid, got) ==
    LET of(x) == {n.id : n \in {n \in got : n.xid = x}}
        others == Open \ {own}
        kept == {o \in t.open : o.xid /= own /\ (o.xid \in others \/ Cardinality(of(o.xid)) = Limit)}
        mine == of(own) \cup {o.id : o \in {o \in t.open : o.xid = own}}
                \cup {0} \cup (IF t.seenXid = own THEN {t.seenId} ELSE {})
    IN {[xid |-> o.xid, id |-> Max(of(o.xid) \cup {o.id})] : o \in kept}
       \cup {[xid |-> x, id |-> 0] : x \in {x \in others : x >= t.seenXid /\ x < seenXid}}
       \cup (IF own < seenXid THEN {[xid |-> own, id |-> Max(mine)]} ELSE {})

\* dispatch: any open transaction, if no other one dispatches. It may have dispatched before, and goes on from there.
Dispatch(x) ==
    /\ status[x] = "open" /\ disp.xid \in {0, x}
    /\ LET t == IF disp.xid = 0 THEN tick ELSE disp.tick
           newer == Newer(t, x)
           got == newer \cup Late(t, x)
           isFull == Cardinality(newer) >= Limit
           last == CHOOSE n \in newer : \A y \in newer : y = n \/ After(n, y.xid, y.id)
           seenXid == IF isFull THEN last.xid ELSE NextXid
       IN /\ got /= {}
          /\ twice' = (twice \/ got \cap (read \cup disp.read) /= {})
          /\ disp' = [xid |-> x, read |-> disp.read \cup got,
                tick |-> [seenXid |-> seenXid, seenId |-> IF isFull THEN last.id ELSE 0,
                          open |-> OpenAfter(t, x, seenXid, got)]]
    /\ UNCHANGED <<status, notice, tick, read>>

DispatchCommit ==
    /\ disp.xid /= 0
    /\ status' = [status EXCEPT ![disp.xid] = "committed"]
    /\ tick' = disp.tick
    /\ read' = read \cup disp.read
    /\ disp' = None
    /\ UNCHANGED <<notice, twice>>

DispatchAbort ==
    /\ disp.xid /= 0
    /\ status' = [status EXCEPT ![disp.xid] = "aborted"]
    /\ disp' = None
    /\ UNCHANGED <<notice, tick, read, twice>>

Next ==
    \/ Begin \/ DispatchCommit \/ DispatchAbort
    \/ \E x \in Xids : Append(x) \/ Commit(x) \/ Abort(x) \/ Dispatch(x)

Spec == Init /\ [][Next]_vars

\* ------------------------------------------------------------------ rules
\* What the tick calls unread: a dispatch whose snapshot sees these notices reads them.
Unread(t) == {n \in notice : After(n, t.seenXid, t.seenId) \/ \E o \in t.open : o.xid = n.xid /\ n.id > o.id}
ReadOnce == ~twice
NothingMissed == \A n \in notice : status[n.xid] = "committed" => n \in read \/ n \in Unread(tick)
NothingUnreadIsRead == read \cap Unread(tick) = {}
=============================================================================
