# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The beeline command: runs MPI programs over Beeline and measures the difference."""

__version__ = "0.1.0"
