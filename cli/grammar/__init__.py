"""The grammar of each command. Imported whole by `tune --help`, so it imports argparse and nothing heavy."""
