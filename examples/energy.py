"""A kernel of your own: `tune run --kernel examples/energy.py:make_kernel --shape m=2048,n=1024`."""

from tilewright.ir import KernelBuilder, float32


def make_kernel(m=2048, n=1024):
    """y[i] = sum over j of w[j] * x[i, j] ** 2"""
    kb = KernelBuilder("energy")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x, w = kb.input("x", (m, n), float32), kb.input("w", (n,), float32)
    energy = kb.sum("energy", (i,), j, w[j] * x[i, j] * x[i, j])
    kb.store("y", float32, (m,), (i,), energy[i])
    return kb.build()
