"""Scoring strategies on recorded spaces: files of other tuners, the score, and spaces to work on."""
