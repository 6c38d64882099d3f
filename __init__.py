"""Tilewright: a kernel autotuner and program search."""
