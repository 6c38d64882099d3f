"""Arithmetic that no processor has an instruction for, as straight-line code of what it has."""
