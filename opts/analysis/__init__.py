"""What options and models ask about a kernel and its loops: facts that no option decides."""
