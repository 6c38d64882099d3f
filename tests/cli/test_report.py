"""tune report in its formats, as a page, and tune plot: on recorded rows, hostile ones among them."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli import main

from .conftest import Tune, row

HOSTILE = '"><script>alert(1)</script>&|`$(x)\\'


@pytest.fixture
def mixed(cache_file: Path) -> Path:
    """Two searches of a matmul, a softmax, and a kernel whose names want to be something else."""
    rows = [
        row(run_id="a", when=f"2026-01-01T00:00:0{i}.000000+00:00", t_min=t, t_med=t * 1.1, strategy=s, opts=[["UPCAST", "a0", 2 + i]])
        for i, (t, s) in enumerate([(9e-5, "start"), (4e-5, "beam"), (2e-5, "beam")])
    ]
    rows += [
        row(run_id="a", when="2026-01-01T00:00:04.000000+00:00", outcome=o, t_min=None, t_med=None, verified=False, strategy="beam")
        for o in ("wrong", "crash", "timeout")
    ]
    rows += [row(run_id="b", when="2026-02-01T00:00:00.000000+00:00", t_min=3e-5, t_med=3.1e-5, strategy="optuna:tpe")]
    rows += [
        row(
            kernel="s" * 64,
            name="softmax",
            shape={"m": 8, "n": 64},
            t_min=1e-6,
            t_med=1e-6,
            flops=2_000,
            bytes=4_000,
            start_s=None,
            roofline_s=None,
            strategy="beam",
        )
    ]
    rows += [
        row(
            kernel="h" * 64,
            name=HOSTILE,
            shape={HOSTILE: 3},
            device=HOSTILE,
            strategy=HOSTILE,
            opts_display=[["UPCAST", "m", 2]],
            provenance={"machine": {"cpu": HOSTILE}},
        )
    ]
    with cache.open(cache_file) as store:
        store.record(rows)
    return cache_file


def test_json_holds_every_column_and_the_whole_row(tune: Tune, mixed: Path) -> None:
    done = tune("report", "--format", "json", "--kernel", "matmul")
    (entry,) = json.loads(done.out)
    assert (entry["time"], entry["tried"], entry["strategy"]) == (2e-5, 7, "beam")
    assert entry["gain"] == pytest.approx(entry["row"]["start_s"] / 2e-5) and entry["row"]["shape"] == {"m": 64, "n": 48, "k": 32}
    assert entry["gflops"] == pytest.approx(entry["row"]["flops"] / 2e-5 / 1e9)


def test_csv_is_numbers_and_no_formula(tune: Tune, mixed: Path) -> None:
    with cache.open(mixed) as store:
        store.record(row(kernel="f" * 64, name="=1+1"))
    lines = list(csv.DictReader(io.StringIO(tune("report", "--format", "csv").out)))
    assert json.loads(next(x for x in lines if x["kernel"] == "matmul")["row.shape"]) == {"m": 64, "n": 48, "k": 32}
    assert len(lines) == 4 and {x["kernel"] for x in lines} == {"matmul", "softmax", HOSTILE, "'=1+1"}
    assert float(next(x for x in lines if x["kernel"] == "softmax")["time"]) == 1e-6
    assert next(x for x in lines if x["kernel"] == "softmax")["roofline"] == ""


def test_markdown_keeps_to_its_cells(tune: Tune, mixed: Path) -> None:
    head, rule, *lines = tune("report", "--format", "markdown").out.strip().splitlines()
    assert lines[3:] == ["", "~ from single times of one run: no paired rounds"]
    del lines[3:]
    assert head.startswith("| kernel |") and len(lines) == 3
    for line in (head, rule, *lines):
        assert len(re.findall(r"(?<!\\)\|", line)) == 9, line
    assert "<script>" not in "".join(lines)


def test_t4_has_every_measurement_with_its_kind_of_failure(tune: Tune, mixed: Path) -> None:
    data = json.loads(tune("report", "--format", "t4", "--kernel", "matmul").out)
    assert data["schema_version"] == "1.0.0" and len(data["results"]) == 7
    kinds = [r["invalidity"] for r in data["results"]]
    assert kinds[:3] == ["correct"] * 3 and sorted(kinds[3:6]) == ["correctness", "runtime", "timeout"] and kinds[6] == "correct"
    for r in data["results"]:
        assert {"configuration", "times", "invalidity", "correctness"} <= set(r)
        assert isinstance(r["times"]["runtimes"], list) and r["correctness"] == (r["invalidity"] == "correct")
    assert data["results"][2]["measurements"][0] == {"name": "time", "value": 2e-5 * 1e3, "unit": "ms"}


def test_t4_invents_nothing_and_has_kernels_without_any_valid_schedule(tune: Tune, mixed: Path) -> None:
    with cache.open(mixed) as store:
        store.record(row(kernel="w" * 64, name="never", outcome="build", t_min=None, t_med=None, verified=False))
        store.record(row(kernel="z" * 64, name="zero", t_min=5e-324, t_med=5e-324))
    results = json.loads(tune("report", "--format", "t4").out)["results"]
    (never,) = (r for r in results if r["configuration"]["kernel"] == "never")
    assert (never["invalidity"], never["times"], never["measurements"]) == ("compile", {"runtimes": []}, [])
    (only,) = json.loads(tune("report", "--format", "t4", "--outcome", "build").out)["results"]
    assert only == never and "Infinity" not in json.dumps(results)


def test_absurd_numbers_are_dashes(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    rows = [
        row(kernel=f"{i:064d}", name=f"odd{i}", **odd)
        for i, odd in enumerate(
            [
                {"t_min": 5e-324, "t_med": 5e-324},
                {"roofline_s": 5e-324},
                {"roofline_s": 1.7e308, "start_s": 1.7e308},
                {"flops": 0, "bytes": 0},
                {"flops": 2**63 - 1, "bytes": 1},
                {"t_min": 0.0, "t_med": 0.0},
                {"provenance": {"roofline": {"bound": "memory", "peak": -1.0, "bandwidth": "x"}}},
                {"provenance": {"roofline": {"bound": "memory", "peak": 1e308, "bandwidth": 1e308}, "machine": [1]}},
                {"opts_display": [1, ["NOPE", "m", 2], []], "opts": "[]"},
            ]
        )
    ]
    with cache.open(cache_file) as store:
        store.record(rows)
    for args in (
        ["--format", "json"],
        ["--format", "csv"],
        ["--format", "markdown"],
        [],
        ["--html", str(tmp_path / "r.html")],
        ["--format", "t4"],
    ):
        done = tune("report", *args)
        assert done.code == 0, done.err
        assert not re.search(r"\b(nan|inf|infinity)\b", done.out, re.I)
    assert len(json.loads(tune("report", "--format", "json").out)) == len(rows) - 1, "a time of zero is none"
    assert not re.search(r"\b(nan|inf)\b", (tmp_path / "r.html").read_text())


def test_a_row_names_code_and_none_of_it_is_run(tune: Tune, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(f"open({str(ran)!r}, 'w').close()\ndef make(*a, **k): open({str(ran)!r}, 'w').close()\n")
    names = [f"{tmp_path}/evil.py:make", "evil.py:make", "evil:make", "cpu:evil", "antigravity:fly"]
    with cache.open(cache_file) as store:
        store.record(
            [
                row(kernel=f"{i}k{k}".ljust(64, "0"), **{field: name})
                for i, name in enumerate(names)
                for k, field in enumerate(("name", "device"))
            ]
        )
    assert tune("report", "--html", str(tmp_path / "r.html")).code == 0 and tune("report").code == 0
    assert not ran.exists()


def test_what_a_kernel_was_is_shown_only_where_it_is_the_same_one(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    from tilewright.ir.normal_form import canonical
    from tilewright.named_kernels import make

    shape = {"m": 64, "n": 48, "k": 32}
    with cache.open(cache_file) as store:
        store.record(row(kernel=canonical(make("matmul", shape)).hash, shape=shape, opts_display=[["UPCAST", "m", 8]]))
        store.record(row(kernel="k" * 64, shape=shape, dtype="float64"))
    tune("report", "--html", str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert text.count("means another kernel in this version") == 1
    nest = re.sub("<[^>]*>", "", text[text.index('aria-label="loop nest"') :])
    assert re.search(r"m\.u 8 +upcast", nest) and re.search(r"\w+\[m, n\] add= \(a\[m, k\] \* b\[k, n\]\)", nest), nest[:600]


def test_roofs_are_the_recorded_limits_and_plain_is_the_empty_schedule(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    limits = {"roofline": {"bound": "compute", "peak": 3e11, "bandwidth": 2e10, "flops": 1}}
    rows = [
        row(provenance=limits, run_id="r"),
        row(provenance=limits, opts="[]", opts_display="[]", t_min=90e-6, t_med=99e-6, outcome="slow", verified=False, run_id="r"),
        row(kernel="t" * 64, name="transpose", flops=0, provenance=limits),
    ]
    with cache.open(cache_file) as store:
        store.record(rows)
    found = {e["kernel"]: e for e in json.loads(tune("report", "--format", "json").out)}
    assert found["matmul"]["plain"] == pytest.approx(10.0) and found["matmul"]["bound"] == "compute" and found["transpose"]["plain"] is None
    tune("report", "--html", str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert "300 GFLOP/s and 20 GB/s" in text and "transpose only moves data" in text and "over plain" in text


def test_a_start_schedule_that_nothing_beat_says_so(tune: Tune, cache_file: Path) -> None:
    with cache.open(cache_file) as store:
        store.record(row(provenance={"start_opts": [["UPCAST", "m", 8]]}))
        store.record(row(kernel="o" * 64, name="other", provenance={"start_opts": [["UPCAST", "m", 4]]}))
    assert {e["kernel"]: e["origin"] for e in json.loads(tune("report", "--format", "json").out)} == {"matmul": "start", "other": "beam"}


def test_an_answer_counts_once_and_ends_its_curve(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    def at(s: int) -> str:
        return f"2026-01-01T00:00:{s:02d}.000000+00:00"

    with cache.open(cache_file) as store:
        store.record(
            [row(run_id="r", when=at(s), t_min=t, t_med=t, strategy="start", verified=v) for s, t, v in [(1, 9e-5, False), (2, 8e-5, True)]]
        )
        store.record(row(run_id="r", when=at(3), t_min=7e-5, t_med=7e-5, strategy="evolve", opts=[], opts_display=[], verified=False))
    (entry,) = json.loads(tune("report", "--format", "json").out)
    assert entry["tried"] == 2
    tune("report", "--html", str(tmp_path / "r.html"))
    assert "90 µs first, 70 µs after 2 measurements and 2.0 s" in (tmp_path / "r.html").read_text()


def test_sorting_and_filters(tune: Tune, mixed: Path) -> None:
    def names(*args: str) -> list[str]:
        return [e["kernel"] for e in json.loads(tune("report", "--format", "json", *args).out)]

    assert names("--sort", "time")[0] == "softmax" and names("--sort", "time:desc")[-1] == "softmax"
    assert names("--sort", "gain")[-1] == "softmax", "without a value: last"
    assert names("--sort", "tried")[0] == "matmul"
    assert names("--kernel", "soft*") == ["softmax"] and set(names("--device", "c*")) == {"matmul", "softmax"}
    assert names("--outcome", "crash") == ["matmul"] and names("--outcome", "illegal") == []
    assert json.loads(tune("report", "--format", "json", "--outcome", "crash").out)[0]["time"] == 2e-5, "the best is still the best"
    assert names("--strategy", "optuna:*") == ["matmul"] and names("--since", "2026-01-15", "--kernel", "matmul") == ["matmul"]
    assert json.loads(tune("report", "--format", "json", "--since", "2026-01-15", "--kernel", "matmul").out)[0]["time"] == 3e-5
    assert len(names("--limit", "2")) == 2 and names("--since", "2036-01-01") == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sort", "gflop"], "did you mean gflops? (columns: kernel, shape"),
        (["--sort", "time:up"], "the order is asc or desc, not 'up'"),
        (["--since", "yesterday"], "--since takes a date such as 2026-01-31"),
        (["--html", "/nonexistent/r.html"], "cannot write --html /nonexistent/r.html"),
    ],
)
def test_mistakes_say_what_to_do(tune: Tune, mixed: Path, args: list[str], message: str) -> None:
    done = tune("report", *args)
    assert done.code == 2 and message in done.err


class Page(HTMLParser):
    """What a page would load, run and show."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts, self.loads, self.ids, self.links, self.text, self._in = 0, [], set(), set(), [], ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._in = tag
        self.scripts += tag == "script"
        self.loads += [v for k, v in attrs if k in ("src", "srcset", "data") or (k == "href" and not str(v).startswith("#"))]
        self.ids |= {given["id"]} if "id" in given else set()
        self.links |= {str(given["href"])[1:]} if "href" in given else set()
        assert not any(k.startswith("on") for k in given), "no handlers in attributes"

    def handle_data(self, data: str) -> None:
        if self._in not in ("script", "style"):
            self.text.append(data)


def test_the_page_stands_alone_and_runs_nothing_of_the_rows(tune: Tune, mixed: Path, tmp_path: Path) -> None:
    done = tune("report", "--html", str(tmp_path / "r.html"))
    assert done.code == 0 and "3 kernels" in done.out
    text = (tmp_path / "r.html").read_text()
    page = Page()
    page.feed(text)
    assert page.scripts == 1 and not page.loads and "url(" not in text and "@import" not in text
    assert {"k0", "k1", "k2"} <= page.ids and page.links <= page.ids
    shown = " ".join(page.text)
    assert HOSTILE in shown, "shown as the text it is"
    for expected in ("20 µs", "wrong", "timeout", "UPCAST", "best time so far", "GFLOP/s", "optuna:tpe 2026-02-01"):
        assert expected in shown, expected
    assert text.count("<svg") == 4, "two roofs, and the curves of the only kernel that was searched for; one measurement is no curve"


def test_an_empty_cache_still_gives_a_page(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    assert tune("report", "--html", str(tmp_path / "r.html")).code == 0
    assert "holds nothing like that" in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_many_rows_stay_quick_to_select(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    with cache.open(cache_file) as store:
        store.record([row(kernel=f"{i:064d}", run_id=str(i)) for i in range(400)])
    tune("report", "--html", str(tmp_path / "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert "The first 200 of 400 kernels have a section" in text and text.count("<section") == 200


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["convergence", "roofline", "outcomes"])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plots_are_written(tune: Tune, mixed: Path, tmp_path: Path, kind: str, ending: str) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is an extra: pip install 'tilewright[plot]'")
    file = tmp_path / f"p.{ending}"
    done = tune("plot", str(file), "--kind", kind, "--kernel", "*")
    assert done.code == 0, done.err
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG") if ending == "png" else b"<svg" in data


@pytest.mark.slow
def test_plot_mistakes(tune: Tune, mixed: Path, tmp_path: Path) -> None:
    assert "give the file such an ending, not '.gif'" in tune("plot", "x.gif").err
    pytest.importorskip("matplotlib", reason="matplotlib is an extra: pip install 'tilewright[plot]'")
    assert "holds nothing like that" in tune("plot", str(tmp_path / "x.png"), "--kernel", "nope").err
    assert "there is no roofline" in tune("plot", str(tmp_path / "x.png"), "--kernel", "softmax", "--kind", "roofline").err
    assert "cannot write" in tune("plot", "/nonexistent/x.png").err


def told(tune: Tune, cache_file: Path, *rows: object) -> dict[str, object]:
    """The one entry of a report on these rows."""
    with cache.open(cache_file) as store:
        store.record(list(rows))
    (entry,) = json.loads(tune("report", "--format", "json").out)
    return dict(entry)


def test_a_gain_is_of_paired_rounds(tune: Tune, cache_file: Path) -> None:
    # the start schedule was timed in a slow minute: its time over the answer's says 2.67
    kept = {"gain": 1.33, "paired": True, "start_opts": []}
    entry = told(tune, cache_file, row(t_min=3e-5, t_med=3.1e-5, start_s=8e-5, opts_display=[["UPCAST", "m", 2]], provenance=kept))
    assert (entry["gain"], entry["paired"]) == (1.33, True)
    assert "1.33x" in tune("report").out and "~" not in tune("report").out


def test_a_gain_of_single_times_is_marked(tune: Tune, cache_file: Path) -> None:
    kept = {"gain": 9.0, "paired": False, "start_opts": []}
    entry = told(tune, cache_file, row(t_min=3e-5, t_med=3.1e-5, start_s=6e-5, opts_display=[["UPCAST", "m", 2]], provenance=kept))
    assert (entry["gain"], entry["paired"]) == (pytest.approx(2.0), False)
    for form in ("table", "markdown"):
        out = tune("report", "--format", form).out
        assert "~2.00x" in out and "no paired rounds" in out


def test_the_start_schedule_itself_gains_nothing(tune: Tune, cache_file: Path) -> None:
    opts = [["UPCAST", "m", 2]]
    entry = told(
        tune,
        cache_file,
        row(t_min=3e-5, t_med=3.1e-5, start_s=2.9e-5, opts_display=opts, provenance={"gain": 1.0, "paired": False, "start_opts": opts}),
    )
    assert (entry["gain"], entry["paired"], entry["origin"]) == (1.0, True, "start")


@pytest.mark.parametrize("kept", [{"gain": "fast", "paired": True}, {"gain": 1e300, "paired": True}, {"gain": None, "paired": True}])
def test_what_a_row_says_of_itself_is_not_believed_blindly(tune: Tune, cache_file: Path, kept: dict[str, object]) -> None:
    entry = told(tune, cache_file, row(t_min=3e-5, t_med=3.1e-5, start_s=6e-5, provenance=kept))
    assert (entry["gain"], entry["paired"], entry["time"]) == (pytest.approx(2.0), False, 3e-5)


def test_plain_is_of_the_same_run(tune: Tune, cache_file: Path) -> None:
    best = row(t_min=1e-5, t_med=1e-5, run_id="b", opts=[["U", "a", 2]], opts_display=[["UPCAST", "m", 2]])
    old = row(t_min=9e-5, t_med=9e-5, run_id="a", verified=False, opts=[], opts_display=[])
    assert told(tune, cache_file, old, best)["plain"] is None
    entry = told(tune, cache_file, row(t_min=4e-5, t_med=4e-5, run_id="b", verified=False, opts=[], opts_display=[]))
    assert entry["plain"] == pytest.approx(4.0)


def test_a_roofline_says_which_and_when_it_is_wrong(tune: Tune, cache_file: Path, tmp_path: Path) -> None:
    facts = {"bound": "L2", "place": "L2", "peak": 1e11, "bandwidth": 2e11, "flops": 10}
    best = row(t_min=3e-5, t_med=3.1e-5, roofline_s=1.2e-5, provenance={"roofline": facts})
    wrong = row(kernel="w" * 64, name="softmax", shape={"m": 8, "n": 8}, t_min=1e-5, t_med=1e-5, roofline_s=1.87e-5, provenance={})
    with cache.open(cache_file) as store:
        store.record([best, wrong])
    out = tune("report", "--format", "markdown").out
    assert "| 40 % in L2 |" in out and "| 187 %! |" in out and "wrong then" in out and "of the bandwidth of that cache" in out
    page = tmp_path / "r.html"
    tune("report", "--html", str(page))
    assert "40 % in L2" in page.read_text() and "187 %!" in page.read_text() and "in cache, bound by L2" in page.read_text()
    assert {e["bound"] for e in json.loads(tune("report", "--format", "json").out)} == {"L2", None}


def test_the_slope_of_a_roof_is_memory(tune: Tune, cache_file: Path) -> None:
    from argparse import Namespace

    from tilewright.cli.report.charts import roofs
    from tilewright.cli.report.entries import entries

    for n, (place, bandwidth) in enumerate([("memory", 1e10), ("L1", 5e11)]):
        facts = {"bound": place, "place": place, "peak": 1e11, "bandwidth": bandwidth, "flops": 10}
        with cache.open(cache_file) as store:
            store.record(row(kernel=str(n) * 64, roofline_s=1e-5, provenance={"roofline": facts}))
    asked = Namespace(
        dtype=None, threads=None, shape=None, since=None, kernel=None, device=None, strategy=None, outcome=None, sort=None, limit=None
    )
    with cache.open(cache_file) as store:
        (roof,) = roofs(entries(store, asked))
    assert roof.limits == (10.0, 100.0)


def test_kernels_with_constant_inputs_and_of_files_are_found_by_name(tune: Tune, cache_file: Path) -> None:
    with cache.open(cache_file) as store:
        store.record([row(kernel=str(n) * 64, name=name) for n, name in enumerate(["matmul", "matmul:constant=b", "f", "f:constant=x"])])

    def found(spec: str) -> list[str]:
        return [e["kernel"] for e in json.loads(tune("report", "--format", "json", "--kernel", spec).out)]

    assert found("matmul:constant=b") == ["matmul:constant=b"] and found("matmul") == ["matmul"]
    assert found("dir/my.py:f") == ["f"] and found("dir/my.py:f:constant=x") == ["f:constant=x"]


def test_a_narrow_terminal_breaks_no_word(tune: Tune, cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with cache.open(cache_file) as store:
        store.record(
            row(
                name="matmul:constant=b",
                shape={"m": 4096, "n": 4096, "k": 4096},
                provenance={"gain": 1.5, "paired": True, "start_opts": []},
            )
        )
    monkeypatch.setenv("COLUMNS", "80")
    from tilewright.cli import main

    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    assert main(["report"]) == 0
    text = out.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for whole in ("matmul:constant=b", "m=4096,n=4096,k=4096", "cpu, 2 threads", "GFLOP/s", "1.50x", "beam"):
        assert whole in text


@pytest.mark.slow
def test_a_plot_goes_through_a_link(tune: Tune, filled: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "old.svg").write_text("<svg/>")
    (tmp_path / "p.svg").symlink_to("old.svg")
    assert tune("plot", str(tmp_path / "p.svg"), "--kind", "outcomes").code == 0
    assert (tmp_path / "p.svg").is_symlink() and "<path" in (tmp_path / "old.svg").read_text()


def test_what_the_device_was_like_is_said_as_far_as_it_is_known() -> None:
    from tilewright.cli.report.html import clocks

    known = {
        "sm_mhz": 1755,
        "sm_mhz_held": 1760,
        "memory_mhz": 3201,
        "temperature_c": 41,
        "power_w": 512.3,
        "throttle": ["power cap", "sync boost"],
    }
    assert clocks({"clocks": known}) == (
        "multiprocessors at 1755 MHz, 1760 MHz by their own count just before, memory at 3201 MHz, 41 °C, 512 W, slowed by power cap, sync boost"
    )
    assert clocks({"clocks": {"sm_mhz_held": 1760, "throttle": []}}) == "1760 MHz by their own count just before"
    # a row that came with a bundle may hold anything
    assert clocks({}) == clocks({"clocks": "fast"}) == clocks({"clocks": {"sm_mhz": "x", "throttle": 3}}) == ""


@pytest.mark.parametrize(("seconds", "busy"), [(0.5, True), (0.014, False)])
def test_times_of_a_busy_machine_explain_no_token(
    seconds: float, busy: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernels that together take far longer than the token that they make."""
    kernel = {"name": "matmul", "calls": 10, "seconds": seconds, "nbytes": 1e6, "gbytes_s": 1.0, "origin": "start", "threads": 1}
    found = {"event": "token", "seconds": 0.01, "weights": 1, "kernels": [kernel]}
    monkeypatch.setattr("tilewright.cli.tuning.model.is_files", lambda path: True)
    monkeypatch.setattr("tilewright.cli.tuning.model.events", lambda *_: [found])
    assert main(["report", "--tokens", "m.gguf"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert ("together they are 50.0 times those of a token" in said) == busy
    assert not (busy and "more than its bytes" in said)
