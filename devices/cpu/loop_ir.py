"""Loops of calls as LLVM IR text, beside the pool's driver (placeholders as there).

A list has three words an entry: a record, its buffers, and the entry's number for timing. A record whose first word is below 0 is a
loop (`native_calls.LoopRecord` says what its words are): it has a list of its own, and words that are addresses. Each step makes the
calls of the list, moves the words, and stores them where the calls of the next step look for them.

A loop may take long. So that Python can look for Ctrl-C and for a time limit, `advance` comes back when its slice of time is over, with
the place in the list; everything else is in the records, and the next `advance` goes on there.

    i64 advance(ptr context, ptr list, i64 n, i64 from, i64 slice_ns)
                                      make the calls `from` to n; n, or the number of the loop in which the slice ended (0: no end).
                                      context: deadline, whether to go on in the middle, ptr seconds (or 0), ptr counts"""

DRIVER = """
define internal void @timed_run(ptr %ctx, ptr %call, ptr %bufs, i64 %number) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %sp = getelementptr ptr, ptr %ctx, i64 2
  %seconds = load ptr, ptr %sp
  %np = getelementptr ptr, ptr %ctx, i64 3
  %counts = load ptr, ptr %np
  %t0 = call i64 @now(ptr %ts)
  call void @run(ptr %call, ptr %bufs)
  %t1 = call i64 @now(ptr %ts)
  %d = sub i64 %t1, %t0
  %f = sitofp i64 %d to double
  %sec = fdiv double %f, 1.000000e+09
  %op = getelementptr double, ptr %seconds, i64 %number
  %before = load double, ptr %op
  %sum = fadd double %before, %sec
  store double %sum, ptr %op
  %cp = getelementptr i64, ptr %counts, i64 %number
  %c = load i64, ptr %cp
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cp
  ret void
}

define internal i64 @steps(ptr %ctx, ptr %list, i64 %n, i64 %from) nounwind {
entry:
  %sp = getelementptr i64, ptr %ctx, i64 2
  %timing = load i64, ptr %sp
  %timed = icmp ne i64 %timing, 0
  br label %head
head:
  %i = phi i64 [%from, %entry], [%i1, %next]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %three = mul i64 %i, 3
  %cp = getelementptr ptr, ptr %list, i64 %three
  %call = load ptr, ptr %cp
  %bp = getelementptr ptr, ptr %cp, i64 1
  %bufs = load ptr, ptr %bp
  %kind = load i64, ptr %call
  %isloop = icmp slt i64 %kind, 0
  br i1 %isloop, label %loop, label %plain
loop:
  %p = call i64 @loop(ptr %ctx, ptr %call, ptr %bufs)
  %paused = icmp ne i64 %p, 0
  br i1 %paused, label %pause, label %next
plain:
  br i1 %timed, label %clocked, label %quick
quick:
  call void @run(ptr %call, ptr %bufs)
  br label %next
clocked:
  %np = getelementptr i64, ptr %cp, i64 2
  %number = load i64, ptr %np
  call void @timed_run(ptr %ctx, ptr %call, ptr %bufs, i64 %number)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %head
pause:
  ret i64 %i
out:
  ret i64 %n
}

define i64 @advance(ptr %ctx, ptr %list, i64 %n, i64 %from, i64 %slice) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %now = call i64 @now(ptr %ts)
  %end = add i64 %now, %slice
  %ends = icmp sgt i64 %slice, 0
  %deadline = select i1 %ends, i64 %end, i64 9223372036854775807
  store i64 %deadline, ptr %ctx
  %at = call i64 @steps(ptr %ctx, ptr %list, i64 %n, i64 %from)
  ret i64 %at
}

; copy n bytes from s to d, unless they are one place
define internal void @copy(ptr %d, ptr %s, i64 %n) nounwind {
entry:
  %same = icmp eq ptr %d, %s
  br i1 %same, label %out, label %go
go:
  %r = call ptr %MEMCPY%(ptr %d, ptr %s, i64 %n)
  br label %out
out:
  ret void
}

; a loop begins: words, what is copied before, the counter. How many steps there are
define internal i64 @loop_begin(ptr %rec, ptr %bufs) nounwind {
entry:
  %wp = getelementptr ptr, ptr %rec, i64 4
  %words = load ptr, ptr %wp
  %ip = getelementptr ptr, ptr %rec, i64 5
  %init = load ptr, ptr %ip
  %np = getelementptr i64, ptr %rec, i64 6
  %n = load i64, ptr %np
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %copies
body:
  %two = mul i64 %i, 2
  %pp = getelementptr i64, ptr %init, i64 %two
  %p = load i64, ptr %pp
  %op = getelementptr i64, ptr %pp, i64 1
  %o = load i64, ptr %op
  %bp = getelementptr i64, ptr %bufs, i64 %p
  %b = load i64, ptr %bp
  %a = add i64 %b, %o
  %ap = getelementptr i64, ptr %words, i64 %i
  store i64 %a, ptr %ap
  %i1 = add i64 %i, 1
  br label %head
copies:
  %cp = getelementptr ptr, ptr %rec, i64 15
  %table = load ptr, ptr %cp
  %ncp = getelementptr i64, ptr %rec, i64 16
  %nc = load i64, ptr %ncp
  br label %chead
chead:
  %j = phi i64 [0, %copies], [%j1, %cbody]
  %cmore = icmp slt i64 %j, %nc
  br i1 %cmore, label %cbody, label %ready
cbody:
  %three = mul i64 %j, 3
  %dp = getelementptr i64, ptr %table, i64 %three
  %dw = load i64, ptr %dp
  %sp = getelementptr i64, ptr %dp, i64 1
  %sw = load i64, ptr %sp
  %lp = getelementptr i64, ptr %dp, i64 2
  %len = load i64, ptr %lp
  %dap = getelementptr ptr, ptr %words, i64 %dw
  %da = load ptr, ptr %dap
  %sap = getelementptr ptr, ptr %words, i64 %sw
  %sa = load ptr, ptr %sap
  call void @copy(ptr %da, ptr %sa, i64 %len)
  %j1 = add i64 %j, 1
  br label %chead
ready:
  %tp = getelementptr ptr, ptr %rec, i64 9
  %all = load ptr, ptr %tp
  %tnp = getelementptr i64, ptr %rec, i64 10
  %nall = load i64, ptr %tnp
  call void @scatter(ptr %all, i64 %nall, ptr %words)
  %startp = getelementptr i64, ptr %rec, i64 23
  %start = load i64, ptr %startp
  %cellp = getelementptr i64, ptr %rec, i64 22
  store i64 %start, ptr %cellp
  %everyp = getelementptr i64, ptr %rec, i64 28
  store i64 1, ptr %everyp
  %duep = getelementptr i64, ptr %rec, i64 29
  store i64 1, ptr %duep
  %lastp = getelementptr i64, ptr %rec, i64 30
  store i64 0, ptr %lastp
  %tripsp = getelementptr i64, ptr %rec, i64 1
  %trips = load i64, ptr %tripsp
  %gp = getelementptr i64, ptr %rec, i64 19
  %g = load i64, ptr %gp
  %gated = icmp sge i64 %g, 0
  br i1 %gated, label %gate, label %go
gate:
  %gap = getelementptr ptr, ptr %bufs, i64 %g
  %ga = load ptr, ptr %gap
  %v = load i8, ptr %ga
  %on = icmp ne i8 %v, 0
  %some = select i1 %on, i64 %trips, i64 0
  br label %go
go:
  %found = phi i64 [%trips, %ready], [%some, %gate]
  ret i64 %found
}

; after a step: what was written is read next, addresses go on, and the calls get them
define internal void @loop_move(ptr %rec) nounwind {
entry:
  %wp = getelementptr ptr, ptr %rec, i64 4
  %words = load ptr, ptr %wp
  %cp = getelementptr ptr, ptr %rec, i64 13
  %carries = load ptr, ptr %cp
  %np = getelementptr i64, ptr %rec, i64 14
  %n = load i64, ptr %np
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %next]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %strides
body:
  %four = mul i64 %i, 4
  %rp = getelementptr i64, ptr %carries, i64 %four
  %r = load i64, ptr %rp
  %wip = getelementptr i64, ptr %rp, i64 1
  %w = load i64, ptr %wip
  %aip = getelementptr i64, ptr %rp, i64 2
  %a = load i64, ptr %aip
  %wap = getelementptr i64, ptr %words, i64 %w
  %written = load i64, ptr %wap
  %rap = getelementptr i64, ptr %words, i64 %r
  store i64 %written, ptr %rap
  %two = icmp sge i64 %a, 0
  br i1 %two, label %swap, label %next
swap:
  %bip = getelementptr i64, ptr %rp, i64 3
  %b = load i64, ptr %bip
  %avp = getelementptr i64, ptr %words, i64 %a
  %av = load i64, ptr %avp
  %bvp = getelementptr i64, ptr %words, i64 %b
  %bv = load i64, ptr %bvp
  %x = xor i64 %av, %bv
  %other = xor i64 %x, %written
  store i64 %other, ptr %wap
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %head
strides:
  %sp = getelementptr ptr, ptr %rec, i64 7
  %stride = load ptr, ptr %sp
  %mp = getelementptr i64, ptr %rec, i64 8
  %m = load i64, ptr %mp
  br label %shead
shead:
  %j = phi i64 [0, %strides], [%j1, %sbody]
  %smore = icmp slt i64 %j, %m
  br i1 %smore, label %sbody, label %done
sbody:
  %vp = getelementptr i64, ptr %words, i64 %j
  %v = load i64, ptr %vp
  %dp = getelementptr i64, ptr %stride, i64 %j
  %d = load i64, ptr %dp
  %v1 = add i64 %v, %d
  store i64 %v1, ptr %vp
  %j1 = add i64 %j, 1
  br label %shead
done:
  %cellp = getelementptr i64, ptr %rec, i64 22
  %c = load i64, ptr %cellp
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cellp
  %tp = getelementptr ptr, ptr %rec, i64 11
  %moving = load ptr, ptr %tp
  %tnp = getelementptr i64, ptr %rec, i64 12
  %nmoving = load i64, ptr %tnp
  call void @scatter(ptr %moving, i64 %nmoving, ptr %words)
  ret void
}

; the last values of carries go where their results are
define internal void @loop_end(ptr %rec) nounwind {
entry:
  %wp = getelementptr ptr, ptr %rec, i64 4
  %words = load ptr, ptr %wp
  %cp = getelementptr ptr, ptr %rec, i64 17
  %table = load ptr, ptr %cp
  %np = getelementptr i64, ptr %rec, i64 18
  %n = load i64, ptr %np
  br label %head
head:
  %j = phi i64 [0, %entry], [%j1, %body]
  %more = icmp slt i64 %j, %n
  br i1 %more, label %body, label %out
body:
  %three = mul i64 %j, 3
  %dp = getelementptr i64, ptr %table, i64 %three
  %dw = load i64, ptr %dp
  %sp = getelementptr i64, ptr %dp, i64 1
  %sw = load i64, ptr %sp
  %lp = getelementptr i64, ptr %dp, i64 2
  %len = load i64, ptr %lp
  %dap = getelementptr ptr, ptr %words, i64 %dw
  %da = load ptr, ptr %dap
  %sap = getelementptr ptr, ptr %words, i64 %sw
  %sa = load ptr, ptr %sap
  call void @copy(ptr %da, ptr %sa, i64 %len)
  %j1 = add i64 %j, 1
  br label %head
out:
  ret void
}

; 0 when the loop has ended, 1 when the slice of time has
define internal i64 @loop(ptr %ctx, ptr %rec, ptr %bufs) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %lp = getelementptr ptr, ptr %rec, i64 2
  %list = load ptr, ptr %lp
  %np = getelementptr i64, ptr %rec, i64 3
  %n = load i64, ptr %np
  %tp = getelementptr i64, ptr %rec, i64 24
  %atp = getelementptr i64, ptr %rec, i64 25
  %ownp = getelementptr i64, ptr %rec, i64 26
  %allp = getelementptr i64, ptr %rec, i64 27
  %everyp = getelementptr i64, ptr %rec, i64 28
  %duep = getelementptr i64, ptr %rec, i64 29
  %lastp = getelementptr i64, ptr %rec, i64 30
  %resumep = getelementptr i64, ptr %ctx, i64 1
  %resume = load i64, ptr %resumep
  %middle = icmp ne i64 %resume, 0
  br i1 %middle, label %again, label %begin
begin:
  %steps = call i64 @loop_begin(ptr %rec, ptr %bufs)
  store i64 %steps, ptr %allp
  br label %head
again:
  %t0 = load i64, ptr %tp
  %at0 = load i64, ptr %atp
  %own = load i64, ptr %ownp
  %mine = icmp ne i64 %own, 0
  br i1 %mine, label %caught, label %head
caught:
  store i64 0, ptr %resumep
  br label %head
head:
  %t = phi i64 [0, %begin], [%t0, %again], [%t0, %caught], [%t1, %on]
  %from = phi i64 [0, %begin], [%at0, %again], [0, %caught], [0, %on]
  %all = load i64, ptr %allp
  %more = icmp slt i64 %t, %all
  br i1 %more, label %body, label %end
body:
  %at = call i64 @steps(ptr %ctx, ptr %list, i64 %n, i64 %from)
  %done = icmp eq i64 %at, %n
  br i1 %done, label %after, label %inner
inner:
  store i64 %t, ptr %tp
  store i64 %at, ptr %atp
  store i64 0, ptr %ownp
  ret i64 1
after:
  %tip = getelementptr i64, ptr %rec, i64 20
  %ti = load i64, ptr %tip
  %tested = icmp sge i64 %ti, 0
  br i1 %tested, label %test, label %goes
test:
  %wp = getelementptr ptr, ptr %rec, i64 4
  %words = load ptr, ptr %wp
  %tap = getelementptr ptr, ptr %words, i64 %ti
  %ta = load ptr, ptr %tap
  %tv = load i8, ptr %ta
  %on1 = icmp ne i8 %tv, 0
  br label %goes
goes:
  %cont = phi i1 [true, %after], [%on1, %test]
  call void @loop_move(ptr %rec)
  %t1 = add i64 %t, 1
  br i1 %cont, label %look, label %end
look:
  %due = load i64, ptr %duep
  %now_due = icmp sge i64 %t1, %due
  br i1 %now_due, label %clock, label %on
clock:
  %now = call i64 @now(ptr %ts)
  %deadline = load i64, ptr %ctx
  %late = icmp sgt i64 %now, %deadline
  %left = icmp slt i64 %t1, %all
  %stop = and i1 %late, %left
  br i1 %stop, label %pause, label %pace
pause:
  store i64 %t1, ptr %tp
  store i64 1, ptr %ownp
  ret i64 1
pace:
  %last = load i64, ptr %lastp
  store i64 %now, ptr %lastp
  %gap = sub i64 %now, %last
  %short = icmp slt i64 %gap, 1000000
  %every = load i64, ptr %everyp
  %double = mul i64 %every, 2
  %half = sdiv i64 %every, 2
  %few = icmp slt i64 %half, 1
  %less = select i1 %few, i64 1, i64 %half
  %many = icmp sgt i64 %double, 4096
  %most = select i1 %many, i64 4096, i64 %double
  %every1 = select i1 %short, i64 %most, i64 %less
  store i64 %every1, ptr %everyp
  %due1 = add i64 %t1, %every1
  store i64 %due1, ptr %duep
  br label %on
on:
  br label %head
end:
  call void @loop_end(ptr %rec)
  ret i64 0
}
"""
