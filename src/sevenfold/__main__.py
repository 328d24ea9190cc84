"""`python -m sevenfold` is the command `sevenfold`."""

import sys

from sevenfold.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
