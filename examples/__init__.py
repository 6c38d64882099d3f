"""Programs that use Tilewright as a user would: `python -m tilewright.examples.llama`, and so on. Each is short, to be read."""
