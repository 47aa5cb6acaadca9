# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""`python -m beeline` is the beeline command."""

import sys

from beeline.main import main

if __name__ == "__main__":
    sys.exit(main())
