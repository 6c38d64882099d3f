"""Copies of parts of inputs near where they are used (STAGE): panels in the order they are read, boxes row by row,
tiles that threads share."""
