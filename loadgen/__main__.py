"""`python -m esg.loadgen`: the `loadgen` command."""

import sys

from esg.loadgen.main import run

if __name__ == "__main__":
    sys.exit(run())
