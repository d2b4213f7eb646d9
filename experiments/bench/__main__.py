"""``python -m tutti.experiments.bench``."""

import sys

from tutti.experiments.bench import main

sys.exit(main())
