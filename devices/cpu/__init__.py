"""This machine's processor: native code made in process (`cpu`) or by a C compiler (`cpu:c`)."""

from __future__ import annotations
