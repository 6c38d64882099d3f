"""The arguments of `tune plan`."""

from __future__ import annotations

from .parser import JSON, READS, Grammar, PathUse, add_cache, add_output, at_least


def plan(p: Grammar) -> None:
    """`tune plan`."""
    p.add_argument("what", nargs="?", choices=("run",), help="run: carry the plan out on processes of this machine, and compare")
    p.add_path("--model", use=READS, metavar="MODEL", help="gpt2, gpt2-medium, gpt2-tiny, or FILE.py:FUNCTION of tensors")
    p.add_argument("--shape", metavar="x=64x128,..", help="of a function: shapes of its arguments, as for tune graph")
    p.add_argument("--dtype", help="of a function: element type of arguments that have none; default float32")
    p.add_argument("--devices", type=at_least(1), metavar="N", help="of a model: devices; default 2")
    p.add_argument("--batch", type=at_least(1), metavar="N", help="of a model: sequences of a step; default two a device")
    p.add_argument("--threads", type=at_least(1), metavar="N", help="of a model: threads of a device; default 1")
    add_cache(p)
    one = p.add_argument_group("one pipeline schedule")
    schedule = one.add_argument(
        "--schedule",
        metavar="NAME",
        help="gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, dualpipe, a FILE.json that --save wrote, or search: the best that is found",
    )
    p.name_path(schedule, READS)
    one.add_argument("--stages", type=at_least(1), metavar="N", help="stages of the pipeline, a device each")
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
    p.add_argument("--tensor", type=at_least(1), metavar="N", help="of a run: tensor-parallel ranks of each stage; default 1")
    p.add_argument("--zero", type=int, choices=range(4), metavar="K", help="of a run: ZeRO's stage over data-parallel ranks, 0 to 3")
    p.add_argument(
        "--memory",
        metavar="SIZE",
        help="what a device may hold, such as 2GB; of a search without --held: a number of microbatches; default: no limit",
    )
    p.add_path("--svg", use=PathUse("writes", "svg"), metavar="FILE", help="draw the schedule")
    p.add_path("--trace", use=JSON, metavar="FILE", help="write the schedule as a trace for ui.perfetto.dev")
    p.add_path("--save", use=JSON, metavar="FILE", help="write the schedule as JSON, for --schedule")
    add_output(p, "text", "json", printed=False)
