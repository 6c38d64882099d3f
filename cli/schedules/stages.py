"""`tune show --stage`: one kernel on its way from values over axes to machine code, each stage as text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from ...ir.errors import DeviceError

if TYPE_CHECKING:
    from ...ir.kernel import Kernel
    from ...opts import Scheduled
    from ...program.program import Program
    from ...renderers import Source
    from ...targets import Target


def stages_text(
    kernel: Kernel,
    scheduled: Scheduled,
    target: Target,
    stages: Sequence[str],
    optional: bool = False,
    written: Kernel | None = None,
) -> str:
    """The texts of `stages`, with a heading each where there are several; ends with a newline. `optional`: a stage
    that cannot be seen here says why, instead of raising DeviceError. `written`: the kernel before it was normalised."""
    made = _Made(kernel, scheduled, target, written or kernel)
    texts = []
    for stage in stages:
        try:
            text = str(getattr(made, stage)())
        except DeviceError as e:
            if not optional:
                raise
            text = f"not to be seen here: {e}\n"
        text += "" if text.endswith("\n") else "\n"
        texts.append(text if len(stages) == 1 else f"== {stage}\n{text}")
    return "\n".join(texts)


class _Made:
    """A method a stage; what several need is made once."""

    def __init__(self, kernel: Kernel, scheduled: Scheduled, target: Target, written: Kernel) -> None:
        self.made_of, self.scheduled, self.target, self.written = kernel, scheduled, target, written

    @cached_property
    def lowered(self) -> Program:
        from ...lower import lower

        return lower(self.scheduled)

    @cached_property
    def rendered(self) -> Source:
        from ...renderers import render

        return render(self.lowered, self.target)

    def kernel(self) -> str:
        """Values over axes, and the form under which caches know it."""
        from ...ir.kernel_text import kernel_text
        from ...ir.normal_form import canonical

        form = canonical(self.made_of)
        return f"{kernel_text(self.made_of)}\ncanonical form\n{form.text.rstrip()}\n\nstructural hash {form.hash}\n"

    def normal(self) -> str:
        """The rules that gave the kernel its normal form, and what each changed."""
        from difflib import ndiff

        from ...ir.kernel_text import kernel_text
        from ...ir.normal_form import applied

        out: list[str] = []
        before = kernel_text(self.written).splitlines()
        for rule, kernel in applied(self.written):
            after = kernel_text(kernel).splitlines()
            out += [f"{rule.name}: {rule.before} -> {rule.after}", *(f"  {line}" for line in ndiff(before, after) if line[0] in "+-"), ""]
            before = after
        return "\n".join(out) or "no rule applies: the kernel is in normal form as it is written"

    def schedule(self) -> str:
        """Every decision, and the loop nest."""
        from ...opts.schedule_text import schedule_text

        return schedule_text(self.scheduled)

    def program(self) -> str:
        """The Program that is rendered."""
        from ...program.listing import show

        return show(self.lowered)

    def passes(self) -> str:
        """The Program as it was emitted, and what each pass changed."""
        from ...lower import lower
        from ...program.listing import History

        history = History()
        lower(self.scheduled, observe=history)
        return history.text()

    def source(self) -> str:
        """The rendered text."""
        return self.rendered.text

    def asm(self) -> str:
        """What the compiler makes of the source."""
        from ...devices.assembly import assembly

        return assembly(self.rendered)

    def ptx(self) -> str:
        """NVIDIA's assembly for every GPU, which `asm` shows as well."""
        from ...devices.assembly import ptx

        return ptx(self.rendered)

    def sass(self) -> str:
        """The machine code of one NVIDIA GPU."""
        from ...devices.assembly import machine_code

        return machine_code(self.rendered)
