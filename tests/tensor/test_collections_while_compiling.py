"""The collector of cycles rests while a captured function is compiled, and is as it was afterwards."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from tilewright import Tensor, jit
from tilewright.tensor.capture import graph_compiler


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_it_rests_while_kernels_are_made(collects, fails, monkeypatch):
    seen, plain = [], graph_compiler.call_list

    def call_list(outs):
        seen.append(gc.isenabled())
        if fails:
            raise ZeroDivisionError
        return plain(outs)

    monkeypatch.setattr(graph_compiler.warm, "load", lambda *args: None)
    monkeypatch.setattr(graph_compiler, "call_list", call_list)
    function, x = jit(lambda x: x + 1), Tensor(np.zeros(3, np.float32))
    if not collects:
        gc.disable()
    try:
        if fails:
            with pytest.raises(ZeroDivisionError):
                function(x)
        else:
            assert function(x).numpy().tolist() == [1, 1, 1]
        assert seen == [False] and gc.isenabled() == collects
    finally:
        gc.enable()
