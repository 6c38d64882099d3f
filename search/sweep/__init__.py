"""Sweeps: every kernel of some models at every shape that they need, for several element types and targets, with resume. Read
`sweep_file` for what is asked, `order` for what is tuned after what, and `journal` for what is kept of it."""
