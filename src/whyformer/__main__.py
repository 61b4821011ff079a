"""``python -m whyformer``."""

import sys

from whyformer.cli import main

sys.exit(main())
