"""What a notebook shows: tables of results and schedules, the text of a Program, all of it escaped."""

from __future__ import annotations

from html.parser import HTMLParser

from tilewright import named_kernels, targets
from tilewright.ir.kernel import folded, table, text
from tilewright.lower import lower
from tilewright.opts import ShownSchedule, apply, parse
from tilewright.program.listing import show
from tilewright.search.result import Job, make


class Cells(HTMLParser):
    """The text of each element, and whether tags close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


JOB = Job("a<b>.py:f", {"m": 4}, "float32", "cpu", 1, "beam", flops=10**6)
SCHEDULE = parse("Um8 Pm")


def test_html_is_escaped() -> None:
    html = table([("<i>", "&")], ("a", '"b"'), "t<") + folded("<s>", text("1 < 2"))
    assert Cells(html).texts == ["t<", "a", '"b"', "<i>", "&", "<s>", "1 < 2"]


def test_a_result_shows_its_answer() -> None:
    result = make(JOB, opts=SCHEDULE, t_min=1e-3, t_med=2e-3, n=5, verified=True, counts={"ok": 3, "slow": 0}, plain_s=4e-3, gain=1.5)
    assert result.opts == SCHEDULE and isinstance(result.opts, ShownSchedule) and result.start_opts is None
    texts = Cells(result._repr_html_()).texts
    for said in ("a<b>.py:f m=4 float32 on cpu with 1 thread", "1 ms", "2 ms", "1 GFLOP/s", "Um8 Pm", "once", "3 ok", "4 ms", "1.50"):
        assert said in texts, said
    assert any("tune run" in t for t in texts)


def test_a_result_without_an_answer_says_why() -> None:
    texts = Cells(make(JOB, message="all 3 failed to build")._repr_html_()).texts
    assert texts[-1] == "all 3 failed to build" and "nothing valid was found" in Cells(make(JOB)._repr_html_()).texts


def test_a_schedule_shows_its_options() -> None:
    shown = ShownSchedule(SCHEDULE)
    assert shown == SCHEDULE and str(shown) == "Um8 Pm" and hash(shown) == hash(SCHEDULE)
    assert Cells(shown._repr_html_()).texts[-4:] == ["Um8", "UPCAST(m, 8)", "Pm", "PARALLEL(m)"]
    assert Cells(ShownSchedule()._repr_html_()).texts == ["schedule: no options"]


def test_a_program_shows_its_text() -> None:
    target = targets.named("avx2")
    program = lower(apply(named_kernels.make("add", {"n": 8}), (), target), target)
    assert "".join(Cells(program._repr_html_()).texts) == show(program)
