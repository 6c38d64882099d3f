"""The pool's driver, replay and timing loop as LLVM IR text: what one call from Python runs (placeholders as in `pool_ir`)."""

from __future__ import annotations

TEXT = """
define void @run(ptr %call, ptr %bufs) nounwind {
entry:
  %n = load i64, ptr %call
  %tp = getelementptr i64, ptr %call, i64 1
  %threads = load i64, ptr %tp
  %sp = getelementptr i64, ptr %call, i64 2
  %scratches = load ptr, ptr %sp
  %vp = getelementptr i64, ptr %call, i64 3
  %vars = load ptr, ptr %vp
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %two = mul i64 %i, 2
  %a = add i64 %two, 4
  %fp = getelementptr i64, ptr %call, i64 %a
  %fn = load ptr, ptr %fp
  %b = add i64 %two, 5
  %ip = getelementptr i64, ptr %call, i64 %b
  %items = load i64, ptr %ip
  call void @phase(ptr %fn, i64 %items, ptr %bufs, ptr %vars, ptr %scratches, i64 %threads)
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}

; store addresses[index] at each place of a table of (place, index)
define void @scatter(ptr %table, i64 %n, ptr %addresses) nounwind {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %two = mul i64 %i, 2
  %pp = getelementptr ptr, ptr %table, i64 %two
  %place = load ptr, ptr %pp
  %one = add i64 %two, 1
  %np = getelementptr i64, ptr %table, i64 %one
  %index = load i64, ptr %np
  %ap = getelementptr i64, ptr %addresses, i64 %index
  %address = load i64, ptr %ap
  store i64 %address, ptr %place
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}

define void @replay(ptr %list, i64 %n, ptr %table, i64 %places, ptr %addresses) nounwind {
entry:
  call void @scatter(ptr %table, i64 %places, ptr %addresses)
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %two = mul i64 %i, 2
  %cp = getelementptr ptr, ptr %list, i64 %two
  %call = load ptr, ptr %cp
  %one = add i64 %two, 1
  %bp = getelementptr ptr, ptr %list, i64 %one
  %bufs = load ptr, ptr %bp
  call void @run(ptr %call, ptr %bufs)
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}

define void @replay_timed(ptr %list, i64 %n, ptr %seconds) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %out
body:
  %two = mul i64 %i, 2
  %item = getelementptr ptr, ptr %list, i64 %two
  %t0 = call i64 @now(ptr %ts)
  call void @replay(ptr %item, i64 1, ptr null, i64 0, ptr null)
  %t1 = call i64 @now(ptr %ts)
  %d = sub i64 %t1, %t0
  %f = sitofp i64 %d to double
  %sec = fdiv double %f, 1.000000e+09
  %op = getelementptr double, ptr %seconds, i64 %i
  store double %sec, ptr %op
  %i1 = add i64 %i, 1
  br label %head
out:
  ret void
}

define internal i64 @now(ptr %ts) nounwind {
  %r = call i32 %CLOCK%(i32 1, ptr %ts)
  %s = load i64, ptr %ts
  %np = getelementptr i64, ptr %ts, i64 1
  %ns = load i64, ptr %np
  %a = mul i64 %s, 1000000000
  %t = add i64 %a, %ns
  ret i64 %t
}

define i64 @bench(ptr %call, ptr %sets, i64 %nsets, i64 %repeats, i64 %limit, ptr %out) nounwind {
entry:
  %ts = alloca [2 x i64], align 8
  %begin = call i64 @now(ptr %ts)
  br label %head
head:
  %i = phi i64 [0, %entry], [%i1, %body]
  %set = phi i64 [0, %entry], [%set2, %body]
  %elapsed = phi i64 [-1, %entry], [%spent, %body]
  %more = icmp slt i64 %i, %repeats
  %within = icmp slt i64 %elapsed, %limit
  %go = and i1 %more, %within
  br i1 %go, label %body, label %done
body:
  %bp = getelementptr ptr, ptr %sets, i64 %set
  %bufs = load ptr, ptr %bp
  %t0 = call i64 @now(ptr %ts)
  call void @run(ptr %call, ptr %bufs)
  %t1 = call i64 @now(ptr %ts)
  %d = sub i64 %t1, %t0
  %f = sitofp i64 %d to double
  %sec = fdiv double %f, 1.000000e+09
  %op = getelementptr double, ptr %out, i64 %i
  store double %sec, ptr %op
  %spent = sub i64 %t1, %begin
  %i1 = add i64 %i, 1
  %set1 = add i64 %set, 1
  %wrap = icmp sge i64 %set1, %nsets
  %set2 = select i1 %wrap, i64 0, i64 %set1
  br label %head
done:
  ret i64 %i
}
"""
