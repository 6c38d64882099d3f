"""Every argument of the public functions, of every wrong type: what comes is an error that says what to give."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright
from tilewright.ir import argument_checks
from tilewright.ir.errors import CacheMiss, TilewrightError, UsageError
from tilewright.tensor.capture.jit_options import JitSettings

BAD = {
    "True": True,
    "None": None,
    "a digit": "3",
    "a text": "m=8,n=8",
    "nothing": "",
    "bytes": b"x",
    "a fraction": 2.5,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "-1": -1,
    "0": 0,
    "huge": 10**400,
    "65 bits": 1 << 64,
    "a list": [],
    "a list of numbers": [1, 2],
    "a tuple": ("x",),
    "a dict": {},
    "a dict of texts": {"m": "8"},
    "a dict by number": {1: 8},
    "a set": {1},
    "an object": object(),
    "a function": len,
    "a type": int,
    "an array": np.zeros(2),
    "a NumPy bool": np.True_,
}


def tune(**more: Any) -> Any:
    return tilewright.tune(**{"kernel": "add", "shape": {"m": 8, "n": 8}, "mode": "require", "threads": 1, **more})


def best(**more: Any) -> Any:
    return tilewright.best(**{"kernel": "add", "shape": {"m": 8, "n": 8}, "exact_only": True, "threads": 1, **more})


def jit(**more: Any) -> Any:
    return tilewright.jit(**{"function": lambda x: x, **more})


CALLS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "tune": (tune, [n for n in inspect.signature(tilewright.tune).parameters if n not in ("mode",)] + ["mode"]),
    "best": (best, [*inspect.signature(tilewright.best).parameters]),
    "jit": (jit, ["function", *JitSettings.__annotations__]),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_argument_of_a_wrong_type_is_a_python_error(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    monkeypatch.chdir(tmp_path)
    function, names = CALLS[call]
    for name in names:
        for what, value in BAD.items():
            try:
                function(**{name: value})
            except TilewrightError as e:
                assert str(e), (name, what)
            except Exception as e:
                pytest.fail(f"{call}({name}={what}) raises {type(e).__name__}: {e}")
    assert [p.name for p in tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("call", "arguments", "said"),
    [
        ("best", {"shape": "m=8,n=8"}, 'give a mapping of sizes by name, such as {"m": 64, "n": 64}'),
        ("tune", {"trials": "3"}, "give a whole number of at least 1"),
        ("tune", {"trials": True}, "give a whole number of at least 1"),
        ("tune", {"trials": np.True_}, "give a whole number of at least 1"),
        ("tune", {"budget": 10**400}, "a number of seconds that there is"),
        ("tune", {"budget": True}, 'give seconds, or a text such as "30s"'),
        ("tune", {"strategy": ""}, "give a name"),
        ("tune", {"study": ""}, "give a URL"),
        ("tune", {"retune": "no"}, "give True or False"),
        ("tune", {"random_seed": 1 << 64}, "64 bits"),
        ("tune", {"interrupt": "stop"}, "give one of raise, return"),
        ("best", {"threads": True}, "give a whole number of at least 1"),
        ("best", {"exact_only": 1}, "give True or False"),
        ("best", {"start": 3}, "give one of"),
        ("jit", {"function": 3}, "give a function of tensors"),
        ("jit", {"threads": "2"}, "give a whole number of at least 1"),
        ("jit", {"budget": None, "donate": 3}, "give names of arguments"),
        ("jit", {"tune": ["use"]}, "give one of use, require"),
    ],
)
def test_it_says_what_to_give(call: str, arguments: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as error:
        CALLS[call][0](**arguments)
    assert said in str(error.value) and f"{next(n for n, v in arguments.items() if v is not None)}=" in str(error.value).replace(" ", "=")


def test_what_is_right_passes(tmp_path: Path) -> None:
    right: dict[str, Any] = {"trials": np.int64(3), "budget": np.float32(2), "threads": np.int32(1), "cache": tmp_path / "c.db"}
    with pytest.raises(CacheMiss):
        tune(**right, random_seed=np.int64(1), allow="downconvert", objective=["time"], vars={}, study=None, stop_at=1)
    with pytest.raises(CacheMiss):
        best(allow=("downconvert",), cache=str(tmp_path / "c.db"), start="quick")
    assert set(argument_checks.NEVER_NONE) <= set(argument_checks.WANTED)
