"""The arguments of graph, profile, bench-search, devices, kernels and completion."""

from __future__ import annotations

from argparse import REMAINDER

from .parser import JSON, READS, Grammar, PathUse, add_cache, add_output, add_table, at_least

SHELLS = ("bash", "zsh", "fish")


def graph(p: Grammar) -> None:
    """`tune graph`."""
    p.add_path("function", use=READS, metavar="FILE.py:FUNCTION", help="a function of tensors; it is called on tensors without values")
    p.add_argument(
        "--shape",
        metavar="x=64x128,float32,..",
        help="shapes of its arguments; default: annotations, default values, or what FUNCTION_inputs() returns",
    )
    p.add_argument("--dtype", help="element type of arguments that have none; default float32")
    p.add_argument("--expr", action="store_true", help="print each kernel as values over axes")
    p.add_argument("--nest", action="store_true", help="print each kernel's loop nest under the start schedule")
    p.add_argument("--target", default="host", metavar="NAME", help="the target of --nest; default: this machine")
    p.add_path("--dot", use=PathUse("writes", "dot"), metavar="FILE", help="write a picture as Graphviz text (- is standard output)")
    p.add_path("--svg", use=PathUse("writes", "svg"), metavar="FILE", help="write a picture drawn by Graphviz, where `dot` is installed")
    p.add_path("--html", use=PathUse("writes", "html"), metavar="FILE", help="write one page with a picture and everything else")
    add_output(p, "text", "json", printed=False)


def profile(p: Grammar) -> None:
    """`tune profile`."""
    p.add_path("file", use=READS, metavar="FILE.py", help="the script to run")
    p.add_argument("arguments", nargs=REMAINDER, metavar="ARGS", help="the script's own arguments; options of tune go before the file")
    p.add_path("--trace", use=JSON, metavar="FILE", help="write every call as a Chrome trace (chrome://tracing, ui.perfetto.dev)")
    add_output(p, "table", "json", printed=False)
    p.add_argument("--limit", type=at_least(1), default=30, metavar="N", help="lines of the table; default 30")


def bench_search(p: Grammar) -> None:
    """`tune bench-search`."""
    p.add_path(
        "files",
        use=READS,
        nargs="*",
        metavar="FILE",
        help="recorded spaces: ours (.jsonl, .jsonl.gz), Kernel Tuner's caches, T4 results; default: made-up spaces",
    )
    p.add_argument("--strategies", metavar="NAME,..", help="strategies to score; default: all whose packages are installed")
    p.add_argument("--repeats", type=int, default=10, metavar="N", help="searches of each strategy on each space; default 10")
    p.add_argument(
        "--budget",
        default="95%",
        metavar="SHARE",
        help="a search may take as long as random search needs for this share of the way from the median to the optimum; default 95%%",
    )
    p.add_path("--json", use=JSON, metavar="FILE", help="write the scores as JSON (- is standard output)")
    p.add_path(
        "--record",
        use=PathUse("writes", "space"),
        metavar="FILE",
        help="measure a space of a kernel into FILE (.jsonl or .jsonl.gz) instead",
    )
    p.add_path("--kernel", use=READS, metavar="NAME", help="with --record: the kernel (`tune kernels`, or my.py:function)")
    p.add_argument("--shape", metavar="m=..,n=..", help="with --record: extents by name")
    p.add_argument("--dtype", help="with --record: the element type")
    p.add_argument("--device", default="cpu", help="with --record: where it runs; default cpu")
    p.add_argument("--trials", type=int, default=300, metavar="N", help="with --record: schedules to measure; default 300")
    p.add_argument("--quiet", action="store_true", help="no progress, only the result")


def devices(p: Grammar) -> None:
    """`tune devices`."""
    p.add_argument("--probe", action="store_true", help="measure peak arithmetic and bandwidth once and keep them (about 10 s)")
    p.add_argument("--links", action="store_true", help="measure sends and collectives between processes, for tune plan (about 3 s)")
    p.add_argument("--backend", choices=("mpi", "gloo"), help="of --links: what processes talk over, MPI or PyTorch's gloo; default mpi")
    add_table(p, "table", "json")


def kernels(p: Grammar) -> None:
    """`tune kernels`."""
    add_table(p, "table", "json")


def completion(p: Grammar) -> None:
    """`tune completion`."""
    p.add_argument("shell", choices=SHELLS, help="the shell that is to complete")


# plan arguments -------------------------------------------------------------------------------------------------------
# The arguments of `tune plan`.


def plan(p: Grammar) -> None:
    """`tune plan`."""
    p.add_argument("what", nargs="?", choices=("run",), help="run: carry the plan out on processes of this machine, and compare")
    p.add_path(
        "--model", use=READS, metavar="MODEL", help="gpt2, gpt2-medium, gpt2-mini, gpt2-tiny, FILE.onnx, or FILE.py:FUNCTION of tensors"
    )
    p.add_argument(
        "--shape", metavar="x=64x128,..", help="of a function: shapes of its arguments, as for tune graph; of an ONNX model: batch=8,.."
    )
    p.add_argument("--dtype", help="of a function: element type of arguments that have none; default float32")
    p.add_argument("--devices", type=at_least(1), metavar="N", help="of a model: devices; default 2")
    p.add_argument("--batch", type=at_least(1), metavar="N", help="of a model: sequences of a step; default two a device")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="of a model: threads of a device; default 1")
    add_cache(p)
    one = p.add_argument_group("one pipeline schedule")
    schedule = one.add_argument(
        "--schedule",
        metavar="NAME",
        help="gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, v-half, v-min, dualpipe, a FILE.json that --save wrote, or search: the best that is found",
    )
    p.name_path(schedule, READS)
    one.add_argument("--stages", type=at_least(1), metavar="N", help="stages of the pipeline; without --model a device each")
    one.add_argument("--microbatches", type=at_least(1), metavar="N", help="pieces of a batch")
    one.add_argument("--chunks", type=at_least(1), metavar="N", help="of interleaved: pieces of the model on each stage; default 2")
    one.add_argument(
        "--times",
        metavar="F,B,W,c",
        help="milliseconds of a stage's forward pass, its gradients of the input and of the weights, and of a transfer; default 1,1,1,0",
    )
    one.add_argument(
        "--held",
        metavar="M_B,M_W",
        help="memory that a microbatch takes on a stage, from F to B and from B to W, such as 300MB,100MB; default: memory is "
        "counted in microbatches",
    )
    one.add_argument("--layout", choices=("one-way", "v"), help="of search: a part of the model on each stage, or two as a V")
    one.add_argument("--seconds", type=at_least(1), metavar="N", help="of search: how long; default 5")
    p.add_argument(
        "--tensor",
        type=at_least(1),
        metavar="N",
        help="of a model: tensor-parallel devices of each stage; the others have other rows of the batch",
    )
    p.add_argument("--zero", type=int, choices=range(4), metavar="K", help="of a model: ZeRO's stage over data-parallel devices, 0 to 3")
    p.add_argument(
        "--slow-link",
        metavar="A-B=TIMES",
        help="of a model: the link of devices A and B (from 0) takes TIMES as long as others; A=TIMES: all links of A; several with commas",
    )
    p.add_argument("--backend", choices=("mpi", "gloo"), help="of a model: what devices talk over, MPI or PyTorch's gloo; default mpi")
    p.add_argument(
        "--memory",
        metavar="SIZE",
        help="what a device may hold, such as 2GB; of a search without --held: a number of microbatches; default: no limit",
    )
    p.add_path("--svg", use=PathUse("writes", "svg"), metavar="FILE", help="draw the schedule")
    p.add_path("--trace", use=JSON, metavar="FILE", help="write the schedule as a trace for ui.perfetto.dev")
    p.add_path("--save", use=JSON, metavar="FILE", help="write the schedule as JSON, for --schedule")
    add_output(p, "text", "json", printed=False)
