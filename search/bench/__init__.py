"""Scoring strategies on recorded spaces: files of other tuners, the score, and made-up spaces to work on."""
