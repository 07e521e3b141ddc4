#!/usr/bin/env python3
"""What compressing a file costs: medians of nine rounds, snappy's raw format, random bytes (images look like them to it).

pip install cramjam && scripts/host-costs/snappy.py
"""
import os
import time

import cramjam

for size in (4096, 16384, 65536):
    data, rounds = os.urandom(size), []
    for _ in range(9):
        begin = time.perf_counter()
        for _ in range(1000):
            cramjam.snappy.compress_raw(data)
        rounds.append((time.perf_counter() - begin) * 1e6)
    print(f"{size // 1024:3} KiB {sorted(rounds)[4]:8.0f} ns")
