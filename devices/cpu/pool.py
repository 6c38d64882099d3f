"""The CPU run time: one native pool of threads a process, with the phase driver and the timing loop as LLVM IR text.

It is linked once, never freed, and reset in forked children. A call from Python is one native call.

A worker has one word (`@mail`): 0 idle, 1 posted, 2 running, 3 asleep. The caller posts a job to the workers it wants, works on
it too, then takes back the posts that nobody has picked up (1 → 0) and waits for those that run (2 → 0). So a worker that is
still waking up costs the caller nothing but the wake call. Items are claimed from one counter, in chunks of items ÷ (8·threads).
A caller who finds the pool busy runs its items itself. Workers spin for `@spin` pauses, then sleep on their word (futex).

Functions:
    void run(ptr call, ptr bufs)      all phases of a call record: i64 phases, i64 threads, ptr scratches, ptr vars,
                                      then (ptr function, i64 items) for each phase
    i64 bench(ptr call, ptr sets, i64 nsets, i64 repeats, i64 limit_ns, ptr seconds)
                                      `run` with bufs = sets[i mod nsets]; the double seconds of each call; how many were made
    i64 given(ptr record)             what a replay was given goes where it belongs: addresses by `scatter`, and where values of symbols are
                                      others than the last ones, the words that follow from them, too (`native_calls.Given` says what the
                                      record has); 1 where a value that is watched has another magnitude than the one that is known
    i64 replay(ptr list, i64 n, ptr record)
                                      `given`, then `run` for n entries (ptr call, ptr bufs, i64 number), unless that was 1; what it was
    i64 advance(...)                  entries of which some are loops, or are timed (`loop_ir`)
    void scatter(ptr table, i64 places, ptr addresses)
                                      addresses[index] is stored at each place of a table of (ptr place, i64 index)
    void spin_pauses(i64 n)           n pauses (to calibrate)
    void set_spin(i64 n), i64 started(), void reset() (forget the workers: in a forked child they do not exist)"""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any

from ...files.folders import remembered
from ...ir.errors import DeviceError
from ...targets import host
from ..once import once
from .engine import Code, compile_text
from .loop_ir import DRIVER as LOOPS
from .loop_ir import expanded

if TYPE_CHECKING:
    from ...targets import Target

SPIN_S = 60e-6
"""How long an idle worker looks for work before it sleeps (waking it costs 35 to 150 µs)."""
MAX_THREADS = 1024
EXTERNALS = {
    "pthread_create": "i32 @pthread_create(ptr, ptr, ptr, ptr)", "pthread_attr_init": "i32 @pthread_attr_init(ptr)",
    "pthread_attr_setstacksize": "i32 @pthread_attr_setstacksize(ptr, i64)", "syscall": "i64 @syscall(i64, ...)",
    "clock_gettime": "i32 @clock_gettime(i32, ptr)", "memcpy": "ptr @memcpy(ptr, ptr, i64)",
}  # fmt: skip
"""Functions of the C library, and how LLVM declares them."""
FUNCTIONS = ("run", "bench", "given", "replay", "scatter", "advance", "spin_pauses", "set_spin", "started", "reset")
# (pause intrinsic declaration, pause call, futex, sched_yield)
_ARCH = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()", 202, 24),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)", 98, 124),
}
SUPPORTED = tuple(_ARCH)


class Pool:
    """The native entry points. `run`, `bench` and those of replays are ctypes functions that release the GIL; the module's text lists their arguments."""

    def __init__(self) -> None:
        target = host()
        if target.arch not in SUPPORTED:
            raise DeviceError(f"the cpu device has no thread pool for {target.arch}: it runs on {' and '.join(SUPPORTED)}")
        libc = ctypes.CDLL(None)
        addresses = {n: ctypes.cast(getattr(libc, n), ctypes.c_void_p).value or 0 for n in EXTERNALS}
        code = Code([_object(target)], FUNCTIONS, addresses)
        code.keep_forever()
        i64, pointer = ctypes.c_int64, ctypes.c_void_p

        def function(name: str, result: Any, *arguments: Any) -> Any:
            return ctypes.CFUNCTYPE(result, *arguments)(code.address(name))

        self.run = function("run", None, pointer, pointer)
        self.bench = function("bench", i64, pointer, pointer, i64, i64, i64, pointer)
        self.given = function("given", i64, pointer)
        self.replay = function("replay", i64, pointer, i64, pointer)
        self.scatter = function("scatter", None, pointer, i64, pointer)
        self.advance = function("advance", i64, pointer, pointer, i64, i64, i64)
        self.started = function("started", i64)
        """How many workers exist in this process."""
        function("set_spin", None, i64)(_spins(function("spin_pauses", None, i64)))
        os.register_at_fork(after_in_child=function("reset", None))


@once
def pool() -> Pool:
    """The pool of this process."""
    return Pool()


def _object(target: Target) -> bytes:
    """The module's object: most processes need nothing else of LLVM, so it is compiled once."""
    import llvmlite

    text = pool_text(target.arch)
    key = f"{text}\n{llvmlite.__version__}\n{target.key}"
    return remembered("pool", key, lambda: compile_text(text, target, native=True, outside=EXTERNALS))


def _spins(pauses: Any) -> int:
    """How many pauses make SPIN_S: a pause is 4 to 140 cycles, by processor. The least of a few tries, for we may be interrupted."""
    n = 2000
    best = float("inf")
    for _ in range(5):
        begin = time.perf_counter()
        pauses(n)
        best = min(best, time.perf_counter() - begin)
    return max(10, int(n * SPIN_S / best))


def pool_text(arch: str) -> str:
    """The module for `arch`, which calls EXTERNALS."""
    declare, pause, futex, sched_yield = _ARCH[arch]
    values = {
        "MAX": MAX_THREADS,
        "DECLARE": "\n".join([declare, *(f"declare {d}" for d in EXTERNALS.values())]),
        "PAUSE": pause,
        "FUTEX": futex,
        "YIELD": sched_yield,
    }
    out = _POOL + _DRIVER + LOOPS
    for name, value in values.items():
        out = out.replace(f"%{name}%", str(value))
    return out


_POOL = """
@lock = global i32 0, align 128
@job = global [8 x i64] zeroinitializer, align 128
@next = global i64 0, align 128
@mail = global [%MAX% x [32 x i32]] zeroinitializer, align 128
@nstarted = global i64 0, align 128
@spin = global i64 1000, align 128
%DECLARE%

define internal ptr @mailbox(i64 %i) nounwind {
  %p = getelementptr [32 x i32], ptr @mail, i64 %i
  ret ptr %p
}

; claim and run chunks of the job until none is left; `me` picks the scratch arena
define internal void @part(i64 %me) nounwind {
entry:
  %fni = load i64, ptr @job
  %fn = inttoptr i64 %fni to ptr
  %items = load i64, ptr getelementptr (i64, ptr @job, i64 1)
  %bufs = load ptr, ptr getelementptr (i64, ptr @job, i64 2)
  %vars = load ptr, ptr getelementptr (i64, ptr @job, i64 3)
  %scratches = load ptr, ptr getelementptr (i64, ptr @job, i64 4)
  %chunk = load i64, ptr getelementptr (i64, ptr @job, i64 5)
  %sp = getelementptr ptr, ptr %scratches, i64 %me
  %scratch = load ptr, ptr %sp
  br label %claim
claim:
  %lo = atomicrmw add ptr @next, i64 %chunk acq_rel
  %more = icmp slt i64 %lo, %items
  br i1 %more, label %work, label %done
work:
  %end = add i64 %lo, %chunk
  %over = icmp sgt i64 %end, %items
  %hi = select i1 %over, i64 %items, i64 %end
  call void %fn(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi)
  br label %claim
done:
  ret void
}

define ptr @worker(ptr %arg) nounwind {
entry:
  %me = ptrtoint ptr %arg to i64
  %mail = call ptr @mailbox(i64 %me)
  br label %idle
idle:
  %limit = load atomic i64, ptr @spin monotonic, align 8
  br label %look
look:
  %i = phi i64 [0, %idle], [%i2, %pause]
  %m = load atomic i32, ptr %mail acquire, align 4
  %posted = icmp eq i32 %m, 1
  br i1 %posted, label %take, label %nothing
nothing:
  %tired = icmp sge i64 %i, %limit
  br i1 %tired, label %doze, label %pause
pause:
  %PAUSE%
  %i2 = add i64 %i, 1
  br label %look
doze:
  %c = cmpxchg ptr %mail, i32 0, i32 3 acq_rel acquire
  %ok = extractvalue { i32, i1 } %c, 1
  br i1 %ok, label %sleep, label %idle
sleep:
  %r = call i64 (i64, ...) @syscall(i64 %FUTEX%, ptr %mail, i32 128, i32 3, ptr null, ptr null, i32 0)
  %m2 = load atomic i32, ptr %mail acquire, align 4
  %still = icmp eq i32 %m2, 3
  br i1 %still, label %sleep, label %idle
take:
  %t = cmpxchg ptr %mail, i32 1, i32 2 acq_rel acquire
  %mine = extractvalue { i32, i1 } %t, 1
  br i1 %mine, label %go, label %idle
go:
  call void @part(i64 %me)
  store atomic i32 0, ptr %mail release, align 4
  br label %idle
}

; have at least `n` workers (called with the lock held); how many there are
define internal i64 @ensure(i64 %n) nounwind {
entry:
  %attr = alloca [128 x i8], align 16
  %thread = alloca i64, align 8
  %have = load i64, ptr @nstarted
  %enough = icmp sge i64 %have, %n
  br i1 %enough, label %ready, label %prepare
ready:
  ret i64 %n
prepare:
  %a = call i32 @pthread_attr_init(ptr %attr)
  %b = call i32 @pthread_attr_setstacksize(ptr %attr, i64 1048576)
  br label %more
more:
  %i = phi i64 [%have, %prepare], [%i1, %started]
  %short = icmp slt i64 %i, %n
  br i1 %short, label %start, label %out
start:
  %i1 = add i64 %i, 1
  %arg = inttoptr i64 %i1 to ptr
  %mail = call ptr @mailbox(i64 %i1)
  store atomic i32 0, ptr %mail release, align 4
  %r = call i32 @pthread_create(ptr %thread, ptr %attr, ptr @worker, ptr %arg)
  %good = icmp eq i32 %r, 0
  br i1 %good, label %started, label %out
started:
  store i64 %i1, ptr @nstarted
  br label %more
out:
  ret i64 %i
}

define internal void @phase(ptr %fn, i64 %items, ptr %bufs, ptr %vars, ptr %scratches, i64 %threads) nounwind {
entry:
  %few = icmp slt i64 %items, %threads
  %t = select i1 %few, i64 %items, i64 %threads
  %single = icmp sle i64 %t, 1
  br i1 %single, label %inline, label %try
try:
  %c = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %got = extractvalue { i32, i1 } %c, 1
  br i1 %got, label %locked, label %inline
locked:
  %want = sub i64 %t, 1
  %n = call i64 @ensure(i64 %want)
  %fni = ptrtoint ptr %fn to i64
  store i64 %fni, ptr @job
  store i64 %items, ptr getelementptr (i64, ptr @job, i64 1)
  store ptr %bufs, ptr getelementptr (i64, ptr @job, i64 2)
  store ptr %vars, ptr getelementptr (i64, ptr @job, i64 3)
  store ptr %scratches, ptr getelementptr (i64, ptr @job, i64 4)
  %eight = mul i64 %t, 8
  %share = sdiv i64 %items, %eight
  %tiny = icmp slt i64 %share, 1
  %chunk = select i1 %tiny, i64 1, i64 %share
  store i64 %chunk, ptr getelementptr (i64, ptr @job, i64 5)
  store atomic i64 0, ptr @next release, align 8
  br label %post
post:
  %i = phi i64 [1, %locked], [%i1, %posted]
  %left = icmp sle i64 %i, %n
  br i1 %left, label %send, label %mine
send:
  %mail = call ptr @mailbox(i64 %i)
  %old = atomicrmw xchg ptr %mail, i32 1 seq_cst
  %asleep = icmp eq i32 %old, 3
  br i1 %asleep, label %wake, label %posted
wake:
  %r = call i64 (i64, ...) @syscall(i64 %FUTEX%, ptr %mail, i32 129, i32 1, ptr null, ptr null, i32 0)
  br label %posted
posted:
  %i1 = add i64 %i, 1
  br label %post
mine:
  call void @part(i64 0)
  br label %collect
collect:
  %j = phi i64 [1, %mine], [%j1, %free]
  %busy = icmp sle i64 %j, %n
  br i1 %busy, label %revoke, label %unlock
revoke:
  %box = call ptr @mailbox(i64 %j)
  %v = cmpxchg ptr %box, i32 1, i32 0 acq_rel acquire
  %unseen = extractvalue { i32, i1 } %v, 1
  br i1 %unseen, label %free, label %wait
wait:
  %w = phi i64 [0, %revoke], [%w1, %again]
  %s = load atomic i32, ptr %box acquire, align 4
  %running = icmp eq i32 %s, 2
  br i1 %running, label %hold, label %free
hold:
  %w1 = add i64 %w, 1
  %long = icmp sgt i64 %w1, 20000
  br i1 %long, label %yield, label %breathe
yield:
  %y = call i64 (i64, ...) @syscall(i64 %YIELD%)
  br label %again
breathe:
  %PAUSE%
  br label %again
again:
  br label %wait
free:
  %j1 = add i64 %j, 1
  br label %collect
unlock:
  store atomic i32 0, ptr @lock release, align 4
  ret void
inline:
  %any = icmp sgt i64 %items, 0
  br i1 %any, label %all, label %none
all:
  %scratch = load ptr, ptr %scratches
  call void %fn(ptr %bufs, ptr %vars, ptr %scratch, i64 0, i64 %items)
  ret void
none:
  ret void
}

define void @spin_pauses(i64 %n) nounwind {
entry:
  br label %l
l:
  %i = phi i64 [0, %entry], [%i1, %l]
  %m = load atomic i32, ptr @lock acquire, align 4
  %PAUSE%
  %i1 = add i64 %i, 1
  %c = icmp slt i64 %i1, %n
  br i1 %c, label %l, label %x
x:
  ret void
}

define void @set_spin(i64 %n) nounwind {
  store atomic i64 %n, ptr @spin monotonic, align 8
  ret void
}

define i64 @started() nounwind {
  %n = load i64, ptr @nstarted
  ret i64 %n
}

define void @reset() nounwind {
  store i64 0, ptr @nstarted
  store atomic i32 0, ptr @lock release, align 4
  ret void
}
"""
# The pool's driver, replay and timing loop as LLVM IR text: what one call from Python runs (placeholders as in
# `pool_ir`).


_DRIVER = expanded("""
define void @run(ptr %call, ptr %bufs) nounwind {
entry:
  %n = load i64, ptr %call
  %threads = get i64 %call[1]
  %scratches = get ptr %call[2]
  %vars = get ptr %call[3]
  each %i < %n {
    %two = mul i64 %i, 2
    %a = add i64 %two, 4
    %fn = get ptr %call[%a]
    %b = add i64 %two, 5
    %items = get i64 %call[%b]
    call void @phase(ptr %fn, i64 %items, ptr %bufs, ptr %vars, ptr %scratches, i64 %threads)
  }
  ret void
}

; store addresses[index] at each place of a table of (place, index)
define void @scatter(ptr %table, i64 %n, ptr %addresses) nounwind {
entry:
  each %i < %n {
    %two = mul i64 %i, 2
    %place = get ptr %table[%two]
    %one = add i64 %two, 1
    %index = get i64 %table[%one]
    %address = get i64 %addresses[%index]
    store i64 %address, ptr %place
  }
  ret void
}

; steps of (operation, to, a, b, k) on words: words[to] = operation(words[a], words[b], k)
define internal void @computed(ptr %words, ptr %code, i64 %n) nounwind {
entry:
  each %i < %n {
    %step = row 5 %code[%i]
    %op = get i64 %step[0]
    %to = get i64 %step[1]
    %at = get i64 %step[2]
    %bt = get i64 %step[3]
    %k = get i64 %step[4]
    %a = get i64 %words[%at]
    %b = get i64 %words[%bt]
    switch i64 %op, label %linear [ i64 1, label %product i64 2, label %quotient i64 3, label %remainder i64 4, label %least i64 5, label %most i64 6, label %positive ]
linear:
    %kb = mul i64 %k, %b
    %l = add i64 %a, %kb
    br label %done
product:
    %p = mul i64 %a, %b
    br label %done
quotient:
    %q0 = sdiv i64 %a, %k
    %qr = srem i64 %a, %k
    %qs = ashr i64 %qr, 63
    %q = add i64 %q0, %qs
    br label %done
remainder:
    %r0 = srem i64 %a, %k
    %rs = ashr i64 %r0, 63
    %rk = and i64 %rs, %k
    %r = add i64 %r0, %rk
    br label %done
least:
    %al = icmp slt i64 %a, %b
    %min = select i1 %al, i64 %a, i64 %b
    br label %done
most:
    %am = icmp sgt i64 %a, %b
    %max = select i1 %am, i64 %a, i64 %b
    br label %done
positive:
    %ap = icmp sgt i64 %a, 0
    %pos = zext i1 %ap to i64
    br label %done
done:
    %v = phi i64 [%l, %linear], [%p, %product], [%q, %quotient], [%r, %remainder], [%min, %least], [%max, %most], [%pos, %positive]
    set i64 %words[%to] = %v
  }
  ret void
}

define i64 @given(ptr %rec) nounwind {
entry:
  %words = get ptr %rec[0]
  %table = get ptr %rec[1]
  %places = get i64 %rec[2]
  call void @scatter(ptr %table, i64 %places, ptr %words)
  %values = get ptr %rec[3]
  %n = get i64 %rec[4]
  %last = get ptr %rec[5]
  %other = alloca i64
  store i64 0, ptr %other
  each %i < %n {
    %v = get i64 %values[%i]
    %w = get i64 %last[%i]
    %x = xor i64 %v, %w
    %o = load i64, ptr %other
    %o1 = or i64 %o, %x
    store i64 %o1, ptr %other
    set i64 %last[%i] = %v
  }
  %differ = load i64, ptr %other
  %new = icmp ne i64 %differ, 0
  br i1 %new, label %sized, label %magnitudes
sized:
  %code = get ptr %rec[6]
  %steps = get i64 %rec[7]
  call void @computed(ptr %words, ptr %code, i64 %steps)
  %counts = get ptr %rec[8]
  %ncounts = get i64 %rec[9]
  call void @scatter(ptr %counts, i64 %ncounts, ptr %words)
  br label %magnitudes
magnitudes:
  %known = get ptr %rec[10]
  %watched = get i64 %rec[11]
  %far = alloca i64
  store i64 0, ptr %far
  each %j < %watched {
    %a = get i64 %values[%j]
    %b = get i64 %known[%j]
    %unlike = xor i64 %a, %b
    %alike = and i64 %a, %b
    %longer = icmp ugt i64 %unlike, %alike
    %f = zext i1 %longer to i64
    %g = load i64, ptr %far
    %g1 = or i64 %g, %f
    store i64 %g1, ptr %far
  }
  %found = load i64, ptr %far
  ret i64 %found
}

define i64 @replay(ptr %list, i64 %n, ptr %rec) nounwind {
entry:
  %changed = call i64 @given(ptr %rec)
  %stop = icmp ne i64 %changed, 0
  br i1 %stop, label %out, label %go
go:
  each %i < %n {
    %cp = row 3 %list[%i]
    %call = load ptr, ptr %cp
    %bufs = get ptr %cp[1]
    call void @run(ptr %call, ptr %bufs)
  }
  br label %out
out:
  ret i64 %changed
}

define internal i64 @now(ptr %ts) nounwind {
  %r = call i32 @clock_gettime(i32 1, ptr %ts)
  %s = load i64, ptr %ts
  %ns = get i64 %ts[1]
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
  %bufs = get ptr %sets[%set]
  %t0 = call i64 @now(ptr %ts)
  call void @run(ptr %call, ptr %bufs)
  %t1 = call i64 @now(ptr %ts)
  %d = sub i64 %t1, %t0
  %f = sitofp i64 %d to double
  %sec = fdiv double %f, 1.000000e+09
  set double %out[%i] = %sec
  %spent = sub i64 %t1, %begin
  %i1 = add i64 %i, 1
  %set1 = add i64 %set, 1
  %wrap = icmp sge i64 %set1, %nsets
  %set2 = select i1 %wrap, i64 0, i64 %set1
  br label %head
done:
  ret i64 %i
}
""")
