"""Worker processes import the methods of `zoo` by name, so its folder is on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
