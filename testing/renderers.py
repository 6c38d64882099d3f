"""What every renderer promises, as tests that its author inherits.

    class TestMine(RendererTestCase):
        target = Target(..., lang="mine", ...)

        def build(self, source):
            ...  # raise where the text does not compile

A renderer is a function of a Program and a target (`renderers.register`); `program.program` says what a Program holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import pytest

if TYPE_CHECKING:
    from ..ir.kernel import Kernel
    from ..program.program import Program
    from ..renderers import Source
    from ..targets import Target

KERNELS = ("add", "matmul", "matmul_int8", "sum_all", "softmax", "conv2d", "argmax", "cumsum", "embedding_grad", "transpose", "attention")
"""Named kernels whose Programs have every kind of statement: loops, folds, masks, scans, gathers, scatters, conversions."""
WALKS, STEPS = 2, 4
"""Random schedules of each kernel, and options that are appended to each."""


class RendererTestCase:
    """Derive a class whose name begins with Test, and give it a `target` of the renderer's language. `build` should compile the text where a
    compiler is at hand."""

    target: ClassVar[Target]
    kernels: tuple[str, ...] = KERNELS

    def build(self, source: Source) -> None:
        """Raise where the text does not compile."""

    @pytest.fixture(params=KERNELS)
    def kernel(self, request: pytest.FixtureRequest) -> Kernel:
        """One of the kernels, at sizes that no vector divides."""
        from ..named_kernels import get

        if request.param not in self.kernels:
            pytest.skip("not one of this renderer's kernels")
        return get(request.param).kernel(get(request.param).odd_shape)

    def programs(self, kernel: Kernel) -> Iterator[Program]:
        """The kernel's Programs: as written, by its first start schedules, and by random ones, always the same."""
        from ..heuristics import quick_starts
        from ..ir.errors import TilewrightError
        from ..lower import lower
        from ..opts import apply
        from ..opts.actions import proposals

        schedules = [(), *quick_starts(kernel, self.target, 1)[:2]]
        for n in range(WALKS):
            rng, opts = random.Random(f"{kernel.name} {n}"), tuple[object, ...]()
            for _ in range(STEPS):
                more = proposals(apply(kernel, opts, self.target))
                if not more:
                    break
                step = rng.choice(list(more))
                try:
                    apply(kernel, (*opts, *step), self.target)
                except TilewrightError:
                    continue
                opts = (*opts, *step)
            schedules.append(opts)  # type: ignore[arg-type]
        for opts in dict.fromkeys(map(tuple, schedules)):
            yield lower(apply(kernel, opts, self.target))

    # the promises ---------------------------------------------------------------------------------------------------
    def test_the_same_program_gives_the_same_text(self, kernel: Kernel) -> None:
        """In whatever order Programs are rendered: the text's hash is a part of keys."""
        from ..renderers import render

        programs = list(self.programs(kernel))
        texts = [render(p, self.target).text for p in programs]
        assert [render(p, self.target).text for p in reversed(programs)] == texts[::-1]

    def test_every_entry_of_the_signature_is_in_the_text(self, kernel: Kernel) -> None:
        """A device finds the function of phase i by `signature.entry(i)`."""
        from ..renderers import render

        for program in self.programs(kernel):
            source = render(program, self.target)
            missing = [e for i in range(len(source.signature.items)) if (e := source.signature.entry(i)) not in source.text]
            assert not missing, f"{missing} of {kernel.name}"

    def test_programs_that_differ_have_texts_that_differ(self, kernel: Kernel) -> None:
        from ..renderers import render

        programs = list(self.programs(kernel))
        distinct = {str(p.phases) for p in programs}
        assert len({render(p, self.target).sha for p in programs}) >= len(distinct) // 2 or len(distinct) == 1

    def test_the_text_compiles(self, kernel: Kernel) -> None:
        from ..renderers import render

        for program in self.programs(kernel):
            self.build(render(program, self.target))
