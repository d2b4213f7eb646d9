"""``python -m experiments.bench``."""

import sys

from tutti.experiments.bench import main

sys.exit(main())
