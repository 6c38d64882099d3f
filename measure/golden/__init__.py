"""Golden bits: every tensor-core instruction on fixed random bits, on a GPU or as C++, against the table of instructions."""
