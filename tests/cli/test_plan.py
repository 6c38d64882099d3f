"""`tune plan`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from .conftest import Tune


@pytest.mark.slow
def test_one_schedule_is_simulated_drawn_kept_and_read(tune: Tune, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("a.json", "b.json", "s.json", "x.svg")}
    words = ("--trace", str(files["b.json"]), "--save", str(files["s.json"]), "--svg", str(files["x.svg"]), "--json", str(files["a.json"]))
    code, *said = tune(
        "plan", "--schedule", "zb-h1", "--stages", "8", "--microbatches", "24", "--times", "18.522,18.086,9.337,0.601", *words
    )
    assert code == 0 and "0.1585" in str(said) and "at most 8 microbatches" in str(said), said
    assert json.loads(files["a.json"].read_text())["bubble"] == pytest.approx(0.1585, abs=5e-5)
    assert json.loads(files["b.json"].read_text())["traceEvents"] and files["x.svg"].read_text().startswith("<svg")
    code, *said = tune("plan", "--schedule", str(files["s.json"]), "--times", "1,1,1,0", "--held", "2MiB,1MiB")
    assert code == 0 and "zb-h1: 8 stages, 24 microbatches" in str(said) and "16 MiB" in str(said), said


@pytest.mark.parametrize(
    "words, says",
    [
        ((), "say --model NAME"),
        (("--model", "gpt2", "--shape", "x=2"), "--shape and --dtype are for FILE.onnx and FILE.py:FUNCTION"),
        (("--model", "gpt2-tiny", "--devices", "3", "--stages", "2", "--tensor", "2"), "cannot be dealt out to 2 stages"),
        (("--model", "gpt2-tiny", "--devices", "2", "--schedule", "zb-v"), "4 layers at least, or fewer stages"),
        (("--model", "gpt2-tiny", "--devices", "2", "--schedule", "mine.json"), "with a model, --schedule is one of gpipe"),
        (("--model", "gpt2-tiny", "--devices", "3", "--tensor", "3"), "cannot be split as asked"),
        (("--model", "none.onnx"), "there is no file none.onnx"),
        (("--model", "none.py:f"), "there is no file none.py"),
        (("--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--zero", "2"), "--tensor, --zero and --slow-link are for a model"),
        (("--model", "gpt9"), "there is no model 'gpt9'; there are gpt2"),
        (("--model", "gpt2", "--devices", "2", "--memory", "lots"), "cannot read --memory"),
        (("--model", "gpt2", "--slow-link", "1-1=8"), "cannot read --slow-link '1-1=8'"),
        (("--model", "gpt2", "--slow-link", "0-2=8"), "a slow link of device 2: 2 devices are numbered from 0 to 1"),
        (("run", "--slow-link", "0-1=8"), "links are as they are"),
        (("--schedule", "1f1b", "--slow-link", "0-1=8"), "are for a model"),
        (("--schedule", "zb-h9"), "there is no pipeline schedule 'zb-h9'"),
        (("--schedule", "zb-h1", "--stages", "2"), "zb-h1 needs --stages and --microbatches"),
        (("--schedule", "none.json"), "cannot read none.json"),
        (("--schedule", "none.json", "--stages", "2"), "leave them out"),
        (("--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--times", "1,2"), "write 4 numbers"),
        (("--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--times", "1,2,nan,0"), "write 4 numbers"),
        (("--schedule", "1f1b", "--stages", "2", "--microbatches", "4", "--held", "1"), "write two sizes"),
        (("--schedule", "search", "--stages", "2"), "search needs --stages and --microbatches"),
        (("--schedule", "search", "--stages", "2", "--microbatches", "4", "--memory", "0.5"), "one microbatch alone takes 1"),
        (("--schedule", "1f1b", "--stages", "4", "--microbatches", "4", "--memory", "3"), "1f1b holds 4 microbatches"),
        (("--schedule", "1f1b", "--stages", "4", "--microbatches", "4", "--layout", "v"), "are for --schedule search"),
        (("--schedule", "interleaved", "--stages", "4", "--microbatches", "6"), "use 8"),
        (("--schedule", "gpipe", "--stages", "1024", "--microbatches", "65536"), "fewer microbatches or stages"),
    ],
)
def test_bad_input_is_said(tune: Tune, words: tuple[str, ...], says: str) -> None:
    if "--model" in words:
        pytest.importorskip("scipy", reason="plans need SciPy (extra plans)")
    code, *said = tune("plan", *words)
    assert code == 2 and says in str(said), said


@pytest.mark.slow
def test_a_model_is_planned_and_the_plan_explained(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, *said = tune("plan", "--model", "gpt2-tiny", "--devices", "2", "--json", str(tmp_path / "p.json"))
    assert code == 0 and "binds" in str(said) and "assumed: 13" in str(said) and "no batch is split to overlap" in str(said), said
    found = json.loads((tmp_path / "p.json").read_text())
    assert sum(found["parts_s"].values()) == pytest.approx(found["plan"]["step_s"]) and found["kernel_times"]["model"] > 0
    code, *said = tune("plan", "--model", "gpt2-tiny", "--devices", "2", "--memory", "100KB")
    assert code == 2 and "bytes is the least" in str(said), said


@pytest.mark.slow
def test_a_plan_is_run_on_processes_and_compared(tune: Tune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code, *said = tune("devices", "--links", "--format", "json")
    if code:
        pytest.skip(f"no MPI here: {said}")
    assert set(json.loads(said[0])["rates"]) == {"send", "all-reduce", "all-gather", "reduce-scatter"}
    code, *said = tune("plan", "run", "--devices", "2", "--schedule", "zb-v", "--microbatches", "4")
    assert code == 0 and "all bits equal those of one process" in str(said) and "2 stages (zb-v, 4 microbatches)" in str(said), said
    assert "predicted" in str(said), said


@pytest.mark.slow
def test_an_onnx_model_is_planned_by_its_kernels(tune: Tune, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("scipy")
    t, of = onnx.TensorProto.FLOAT, onnx.helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.ones((64, 32), "float32"), "w")
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["h"]), onnx.helper.make_node("Relu", ["h"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [of("x", t, ["batch", 64])], [of("y", t, ["batch", 32])], [weights])
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "m.onnx"))
    found = tmp_path / "p.json"
    code, *said = tune("plan", "--model", str(tmp_path / "m.onnx"), "--shape", "batch=256", "--devices", "2", "--json", str(found))
    assert code == 0, said
    (split,) = json.loads(found.read_text())["plan"]["stages"][0]["split"].values()
    assert split == "d0 over 2", "the batch"
    code, *said = tune("plan", "--model", str(tmp_path / "m.onnx"), "--shape", "rows=2")
    assert code == 2 and "the model has no size 'rows'; its sizes are batch" in str(said), said
