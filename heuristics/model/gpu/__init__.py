"""The analytic model of GPUs: what a group does, what a chip gives, and the time that follows (`estimate`)."""
