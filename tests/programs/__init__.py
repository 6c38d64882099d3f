"""Random programs of tensors: drawn from a numbered stream, computed by NumPy with bounds on every error, by the library in
several ways, compared, and shrunk to a file where they differ.

`noisy` is the arithmetic of the bounds, `plain` what NumPy lacks, `program` the data, `operations` the table of what a step can
be, `draw` the generator, `oracle` what is right, `nodes` the same for a graph node by node, `ways` how the library computes,
`check` one program in one way, `shrink` and `written` what becomes of a failure, `pairs` the systematic products, `rules` the
metamorphic ones. `python -m tests.programs --help` runs them."""
