"""Kernels at sizes that take a tenth of a millisecond to a few: what cost models and start schedules are judged on.

A case is *held out* where nothing is worked on it: the kernels of `parts/held_out_kernels.py`, those that `user/cases.toml` says are held
out, and named workloads whose name's SHA-256 begins with an odd byte."""

from __future__ import annotations

import hashlib
import runpy
from dataclasses import dataclass
from pathlib import Path

from tilewright import named_kernels
from tilewright.ir import Kernel
from tilewright.ir.normal_form import normalise
from vs_c import cases

BENCHMARKS = Path(__file__).parents[1]


@dataclass(frozen=True)
class RankingCase:
    """A kernel of a file of `benchmarks` ('user': one of `user/cases.toml`; '': a named one) at some sizes."""

    name: str
    file: str
    sizes: dict[str, int]

    @property
    def held_out(self) -> bool:
        """Whether models and start schedules are only judged on it."""
        if self.file.startswith("user"):
            return cases()[self.name].held_out
        if self.file:
            return "held_out" in self.file
        return hashlib.sha256(self.name.encode()).digest()[0] % 2 == 1

    @property
    def id(self) -> str:
        """Name and sizes."""
        return f"{self.name}-{'x'.join(map(str, self.sizes.values()))}"

    def kernel(self) -> Kernel:
        """In normal form, in float32 where it has that."""
        if self.file.startswith("user"):  # with a file's name after that where it was recorded before the files moved
            return normalise(cases()[self.name].make(**self.sizes))
        if self.file:
            file = BENCHMARKS / self.file
            if not file.exists():  # recorded before the file moved
                file = BENCHMARKS / "parts" / file.name
            return normalise(runpy.run_path(str(file))[self.name](**self.sizes))
        dtypes = named_kernels.get(self.name).dtypes
        return normalise(named_kernels.make(self.name, self.sizes, "float32" if "float32" in dtypes else None))


def _sizes(text: str) -> dict[str, int]:
    return {k: int(v) for k, v in (part.split("=") for part in text.split(","))}


_USER = (
    "nbody n=1024; kmeans n=2048,k=64,d=64; pairwise_l1 m=256,n=256,d=128; black_scholes n=65536; "
    "matmul_int8_groups m=16,n=512,k=1024,g=64; quantised_layer m=64,n=512,k=512; three_products m=96,k=96,l=96,n=96; "
    "bilinear_form b=64,m=256,n=256; rotary_pairs s=512,h=8,d=128; complex_multiply n=262144; row_statistics m=512,n=2048; "
    "drawdown b=64,t=4096; linear_recurrence b=64,t=4096; histogram n=262144,v=256; segment_sum n=8192,d=64,v=1024; "
    "weighted_bags b=1024,l=16,v=20000,d=64; causal_conv c=128,t=4096,k=4; audio_fir n=131072,k=64; grey h=768,w=1024; "
    "bilinear_resize h=384,w=384,p=512,q=512; clamped2d h=768,w=1024; clamped3d d=72,h=80,w=80; blur_chain h=512,w=512; "
    "harris h=384,w=384; gravity_components n=1024; cosine_similarity m=1024,n=1024; sums_by_bin n=262144,v=64; "
    "edges_wrapped h=512,w=512; wave_step h=640,w=768; lennard_jones n=1024; covariance n=2048,d=96; mahalanobis b=1024,d=96; "
    "tucker i=64,j=64,k=64,r=8; int4_matvec n=1024,k=1024,g=64; integral_image h=512,w=768; premultiplied_over h=512,w=512; "
    "gathered_lse b=512,v=4096,l=256; butterfly n=131072; joint_histogram n=262144,v=32"
)
_MORE = (
    "grouped_norm b=4,g=16,n=4096; outer_product m=512,n=768; rotation s=256,h=16,d=64; blur h=512,w=512; gram n=1024,d=128; "
    "distances m=256,n=256,d=64; segment_max n=2048,d=128,v=256; polynomial n=262144; complex_product m=64,n=4096; triangular_step m=256,n=128"
)
_CONV = "n=1,c={c},h=28,w=28,oc=32,kh=3,kw=3,stride=1,pad=1,groups=1"
_NAMED = (
    "batched_matmul b=4,m=128,n=128,k=128; matvec m=1024,n=1024; sum_rows m=1024,n=1024; softmax m=512,n=1024; rmsnorm m=512,n=1024; "
    "gelu m=256,n=1024; add m=1024,n=2048; transpose m=1024,n=1000; "
    f"conv2d {_CONV.format(c=32)}; conv2d_dw {_CONV.format(c=16)}; max_pool2d n=1,c=16,h=112,w=112,kh=3,kw=3,stride=2,pad=1; "
    "argmax m=1024,n=1024; embedding v=8192,n=512,d=1024; embedding_grad v=2048,n=1024,d=256; attention b=1,h=2,s=256,d=64; "
    "matmul_bias_relu m=192,n=192,k=192; matmul m=256,n=256,k=256; matmul m=100,n=777,k=513; matmul m=8,n=1024,k=1024; "
    "matmul_nt m=192,n=192,k=192; matmul_tn m=192,n=192,k=192; sum_cols m=1024,n=1024; log_softmax m=512,n=1000; layernorm m=512,n=1024; "
    "cross_entropy m=512,n=1000; cumsum m=512,n=1024; sum_all n=1048576; attention_grouped b=1,h=4,hk=2,s=256,d=64; "
    "matmul_bias_gelu m=192,n=192,k=192; matmul_int8 m=192,n=192,k=192"
)


def _cases(file: str, text: str) -> list[RankingCase]:
    return [RankingCase(name, file, _sizes(sizes)) for name, sizes in (case.split() for case in text.split(";"))]


CASES = (
    *_cases("user", _USER),
    *_cases("parts/held_out_kernels.py", _MORE),
    *_cases("", _NAMED),
)
