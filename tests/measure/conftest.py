import sys
from pathlib import Path

# helper processes import compile functions from here by name
sys.path.insert(0, str(Path(__file__).parent))
