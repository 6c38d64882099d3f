"""Small kernels and hand-written code for them: `double` is y[i] = 2·x[i] over N elements, as LLVM IR with faults put in."""

import json
import os
import signal
import time

from tilewright import devices
from tilewright.ir import BuildError, KernelBuilder, OptError, float32
from tilewright.ir.node import const
from tilewright.measure import Outcome
from tilewright.plan import Built
from tilewright.program.program import Param, Signature
from tilewright.renderers import Source


def right(*results):
    """Whether all ran and were right. One that follows another may have been rejected as slow where the machine is busy."""
    return all(r.outcome in (Outcome.ok, Outcome.slow) for r in results)


N = 5000  # 20000 bytes: not a whole number of pages, so both placements exist


def double(n=N, dtype=float32):
    kb = KernelBuilder("double")
    i = kb.axis("i", n)
    x = kb.input("x", (n,), dtype)
    kb.store("y", dtype, (n,), (i,), x[i] * 2.0)
    return kb.build()


SYSCALL = '"syscall", "={rax},{rax},{rdi},{rsi},{rdx},{r10},{r8},{r9},~{rcx},~{r11},~{memory}"'


def text(body="", value="fadd float %v, %v", head="", n=N, lo=0):
    """IR of double's phase: `body` runs first, `value` computes an element from %v (x[i]); %x, %y, %scratch are the addresses."""
    return f"""{head}
declare void @llvm.trap()
define void @double_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) nounwind {{
entry:
  %x = load ptr, ptr %bufs
  %bufs1 = getelementptr ptr, ptr %bufs, i64 1
  %y = load ptr, ptr %bufs1
  br label %first
first:
{body}
  br label %enter
enter:
  br label %loop
loop:
  %i = phi i64 [{lo}, %enter], [%next, %loop]
  %px = getelementptr float, ptr %x, i64 %i
  %v = load float, ptr %px, align 4
  %w = {value}
  %py = getelementptr float, ptr %y, i64 %i
  store float %w, ptr %py, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, {n}
  br i1 %more, label %loop, label %end
end:
  ret void
}}
"""


def store_at(index, value="0x3FF0000000000000", base="%y"):
    return f"  %bad = getelementptr float, ptr {base}, i64 {index}\n  store volatile float {value}, ptr %bad, align 4"


def load_at(index, base="%x"):
    return f"  %bad = getelementptr float, ptr {base}, i64 {index}\n  %got = load volatile float, ptr %bad, align 4"


def endless(inside=""):
    return f"  br label %hang\nhang:\n{inside}\n  br i1 true, label %hang, label %out\nout:"


def count(then):
    """Run `then` from the second call on: state that survives a call."""
    return f"""  %c = load i32, ptr @calls
  %c1 = add i32 %c, 1
  store i32 %c1, ptr @calls
  {then}"""


def signature(n=N, scratch=0):
    return Signature("double", (Param("x", float32, (n,), "in"), Param("y", float32, (n,), "out")), (), (const(1),), scratch, 0)


def built(ir, name="hand", scratch=0, effects=frozenset(), n=N, device="cpu"):
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()  # some of the code here makes system calls
    d = devices.get(device)
    source = Source(ir, "llvm", d.target, signature(n, scratch))
    return Built((name,), source, frozenset(effects), name, 0.0, 0.0, d.build(source), 0.0)


def compile_by_name(kernel, opts, device):
    """A compile function for builders: the one "option" says what happens in the builder."""
    (what,) = opts
    if what == "hang":
        time.sleep(1000)
    if what == "tell":
        raise OptError(json.dumps({"parent": os.getppid(), "folder": os.getcwd(), "variable": os.environ.get("TILEWRIGHT_TOLD")}))
    if what == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    if what == "exit":
        os._exit(7)
    if what == "memory":
        held = []
        while True:
            held.append(bytearray(b"\1") * (1 << 26))
    if what == "illegal":
        raise OptError("this option is not legal here")
    if what == "syntax":
        return built("this is not LLVM IR")
    if what == "refuse":
        raise BuildError("no code for this")
    if what == "bug":
        return {}["a bug in the lowering"]
    if what == "slow build":
        time.sleep(0.3)
    return built(text(), what)
