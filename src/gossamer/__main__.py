"""`python -m gossamer`."""

import sys

from gossamer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
