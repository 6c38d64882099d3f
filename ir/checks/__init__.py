"""What must hold of a kernel before anything is made of it."""
