# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""One rank of mpi4py's test suite: its output goes to a file of its own, since the
lines of several ranks would be mixed, and then test/main.py runs as usual.

    python mpi4py_rank.py OUTPUT-PREFIX MAIN.PY ARGUMENT...
"""

import os
import runpy
import sys

rank = next(
    os.environ[name]
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
    if name in os.environ
)
out = os.open(f"{sys.argv[1]}.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
os.dup2(out, 1)
os.dup2(out, 2)
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
