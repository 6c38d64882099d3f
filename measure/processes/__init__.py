"""The processes of measuring: builders, the runner with its children, and what they say to each other."""
