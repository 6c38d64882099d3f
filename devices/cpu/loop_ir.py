"""Loops of calls as LLVM IR text, beside the pool's driver (placeholders as there).

A list has three words an entry: a record, its buffers, and the entry's number for timing. A record whose first word is below 0 is a
loop (`native_calls.LoopRecord` says what its words are): it has a list of its own, and words that are addresses. Each step makes the
calls of the list, moves the words, and stores them where the calls of the next step look for them.

A loop may take long. So that Python can look for Ctrl-C and for a time limit, `advance` comes back when its slice of time is over, with
the place in the list; everything else is in the records, and the next `advance` goes on there.

    i64 advance(ptr context, ptr list, i64 n, i64 from, i64 slice_ns)
                                      make the calls `from` to n; n, or the number of the loop in which the slice ended (0: no end).
                                      context: deadline, whether to go on in the middle, ptr seconds (or 0), ptr counts"""

from __future__ import annotations

import re

# ir macros --------------------------------------------------------------------------------------------------
# Short forms of LLVM IR text, a line each, for the run time that is written by hand (`pool`, `loop_ir`):
#
# %x = get TYPE %table[PLACE]       the word at a place of a table
# set TYPE %table[PLACE] = VALUE    the same, written
# %row = row WIDTH %table[%i]       the address of a table's i-th row of so many 64-bit words
# each %i < %n {                    the lines to its } for i = 0 … n−1


_NUMBER = r"(%?[\w.]+)"
_GET = re.compile(rf" +%(\w+) = get (\w+) %(\w+)\[{_NUMBER}\]")
_SET = re.compile(rf" +set (\w+) %(\w+)\[{_NUMBER}\] = {_NUMBER}")
_ROW = re.compile(rf" +%(\w+) = row (\d+) %(\w+)\[{_NUMBER}\]")
_EACH = re.compile(rf" +each %(\w+) < {_NUMBER} {{")
_LABEL = re.compile(r"([\w.]+):")


def expanded(text: str) -> str:
    """The text in plain LLVM IR."""
    out: list[str] = []
    label = ""
    loops: list[tuple[str, int]] = []
    for number, line in enumerate(text.splitlines()):
        if m := _GET.fullmatch(line):
            name, kind, table, place = m.groups()
            out += [f"  %{name}.at = getelementptr {kind}, ptr %{table}, i64 {place}", f"  %{name} = load {kind}, ptr %{name}.at"]
        elif m := _SET.fullmatch(line):
            kind, table, place, value = m.groups()
            out += [f"  %at.{number} = getelementptr {kind}, ptr %{table}, i64 {place}", f"  store {kind} {value}, ptr %at.{number}"]
        elif m := _ROW.fullmatch(line):
            name, width, table, i = m.groups()
            out += [f"  %{name}.n = mul i64 {i}, {width}", f"  %{name} = getelementptr i64, ptr %{table}, i64 %{name}.n"]
        elif m := _EACH.fullmatch(line):
            i, n = m.groups()
            loops.append((i, len(out) + 2))
            out += [f"  br label %{i}.head", f"{i}.head:", f"  %{i} = phi i64 [0, %{label}], [%{i}.next, %"]
            out += [f"  %{i}.more = icmp slt i64 %{i}, {n}", f"  br i1 %{i}.more, label %{i}.body, label %{i}.out", f"{i}.body:"]
            label = f"{i}.body"
        elif line.strip() == "}" and loops:
            i, phi = loops.pop()
            out[phi] += f"{label}]"
            out += [f"  %{i}.next = add i64 %{i}, 1", f"  br label %{i}.head", f"{i}.out:"]
            label = f"{i}.out"
        else:
            if m := _LABEL.fullmatch(line):
                label = m[1]
            out.append(line)
    return "\n".join(out) + "\n"


DRIVER = expanded("""
define internal void @timed_run(ptr %ctx, ptr %call, ptr %bufs, i64 %number) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %seconds = get ptr %ctx[2]
  %counts = get ptr %ctx[3]
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
  %c = get i64 %cp[0]
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cp
  ret void
}

define internal i64 @steps(ptr %ctx, ptr %list, i64 %n, i64 %from) nounwind {
entry:
  %timing = get i64 %ctx[2]
  %timed = icmp ne i64 %timing, 0
  br label %head
head:
  %i = phi i64 [%from, %entry], [%i1, %next]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %cp = row 3 %list[%i]
  %call = get ptr %cp[0]
  %bufs = get ptr %cp[1]
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
  %number = get i64 %cp[2]
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
  %r = call ptr @memcpy(ptr %d, ptr %s, i64 %n)
  br label %out
out:
  ret void
}

; copies between the words of a loop: a table of (to, from, bytes), and how many there are, at a place of its record. (Before a loop, of
; what carries begin with; after it, of their last values)
define internal void @copies(ptr %rec, i64 %place) nounwind {
entry:
  %words = get ptr %rec[4]
  %table = get ptr %rec[%place]
  %after = add i64 %place, 1
  %n = get i64 %rec[%after]
  each %j < %n {
    %dp = row 3 %table[%j]
    %dw = get i64 %dp[0]
    %sw = get i64 %dp[1]
    %len = get i64 %dp[2]
    %da = get ptr %words[%dw]
    %sa = get ptr %words[%sw]
    call void @copy(ptr %da, ptr %sa, i64 %len)
  }
  ret void
}

; a loop begins: words, what is copied before, the counter. How many steps there are
define internal i64 @loop_begin(ptr %rec, ptr %bufs) nounwind {
entry:
  %words = get ptr %rec[4]
  %init = get ptr %rec[5]
  %n = get i64 %rec[6]
  each %i < %n {
    %pp = row 2 %init[%i]
    %p = get i64 %pp[0]
    %o = get i64 %pp[1]
    %b = get i64 %bufs[%p]
    %a = add i64 %b, %o
    set i64 %words[%i] = %a
  }
  call void @copies(ptr %rec, i64 15)
  %all = get ptr %rec[9]
  %nall = get i64 %rec[10]
  call void @scatter(ptr %all, i64 %nall, ptr %words)
  %start = get i64 %rec[23]
  set i64 %rec[22] = %start
  set i64 %rec[28] = 1
  set i64 %rec[29] = 1
  set i64 %rec[30] = 0
  %trips = get i64 %rec[1]
  %g = get i64 %rec[19]
  %gated = icmp sge i64 %g, 0
  br i1 %gated, label %gate, label %go
gate:
  %ga = get ptr %bufs[%g]
  %v = load i8, ptr %ga
  %on = icmp ne i8 %v, 0
  %some = select i1 %on, i64 %trips, i64 0
  br label %go
go:
  %found = phi i64 [%trips, %i.out], [%some, %gate]
  ret i64 %found
}

; before step t: what was written is read next, addresses go on or jump to other arrays, and the calls get them
define internal void @loop_move(ptr %rec, ptr %bufs, i64 %t) nounwind {
entry:
  %words = get ptr %rec[4]
  %carries = get ptr %rec[13]
  %n = get i64 %rec[14]
  each %i < %n {
    %rp = row 4 %carries[%i]
    %r = get i64 %rp[0]
    %w = get i64 %rp[1]
    %a = get i64 %rp[2]
    %wap = getelementptr i64, ptr %words, i64 %w
    %written = load i64, ptr %wap
    set i64 %words[%r] = %written
    %two = icmp sge i64 %a, 0
    br i1 %two, label %swap, label %next
swap:
    %b = get i64 %rp[3]
    %av = get i64 %words[%a]
    %bv = get i64 %words[%b]
    %x = xor i64 %av, %bv
    %other = xor i64 %x, %written
    store i64 %other, ptr %wap
    br label %next
next:
  }
  %stride = get ptr %rec[7]
  %m = get i64 %rec[8]
  each %j < %m {
    %vp = getelementptr i64, ptr %words, i64 %j
    %v = load i64, ptr %vp
    %d = get i64 %stride[%j]
    %v1 = add i64 %v, %d
    store i64 %v1, ptr %vp
  }
  %jumps = get ptr %rec[31]
  %nj = get i64 %rec[32]
  each %k < %nj {
    %jp = row 4 %jumps[%k]
    %step = get i64 %jp[0]
    %now = icmp eq i64 %step, %t
    br i1 %now, label %jump, label %stays
jump:
    %jw = get i64 %jp[1]
    %jb = get i64 %jp[2]
    %jo = get i64 %jp[3]
    %ja = get i64 %bufs[%jb]
    %jat = add i64 %ja, %jo
    set i64 %words[%jw] = %jat
    br label %stays
stays:
  }
  %cellp = getelementptr i64, ptr %rec, i64 22
  %c = load i64, ptr %cellp
  %c1 = add i64 %c, 1
  store i64 %c1, ptr %cellp
  %moving = get ptr %rec[11]
  %nmoving = get i64 %rec[12]
  call void @scatter(ptr %moving, i64 %nmoving, ptr %words)
  ret void
}

; 0 when the loop has ended, 1 when the slice of time has
define internal i64 @loop(ptr %ctx, ptr %rec, ptr %bufs) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %list = get ptr %rec[2]
  %n = get i64 %rec[3]
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
  %ti = get i64 %rec[20]
  %tested = icmp sge i64 %ti, 0
  br i1 %tested, label %test, label %goes
test:
  %words = get ptr %rec[4]
  %ta = get ptr %words[%ti]
  %tv = load i8, ptr %ta
  %on1 = icmp ne i8 %tv, 0
  br label %goes
goes:
  %cont = phi i1 [true, %after], [%on1, %test]
  %t1 = add i64 %t, 1
  call void @loop_move(ptr %rec, ptr %bufs, i64 %t1)
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
  call void @copies(ptr %rec, i64 17)
  ret i64 0
}
""")
