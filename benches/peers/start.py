"""Runs a program and writes its wall time, processor time, peak memory and status to a descriptor.

The kernel counts the memory of the process that starts a program as the program's own peak. This one is small.
"""

import os
import signal
import sys
import time

report, command = int(sys.argv[1]), sys.argv[2:]
os.set_inheritable(report, False)
start = time.perf_counter()
# Python ignores these signals. The program must not.
process = os.posix_spawnp(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
_, status, usage = os.wait4(process, 0)
wall = time.perf_counter() - start
os.write(report, f"{wall} {usage.ru_utime + usage.ru_stime} {usage.ru_maxrss * 1024} {os.waitstatus_to_exitcode(status)}".encode())
