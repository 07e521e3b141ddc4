"""Lays the samples of `perf` into kinds of calls and kinds of updates; measure.sh calls it and says what files there are.

A sample belongs to the innermost function of its call chain that PARTS names; to "other" where that is another function
of the file system. So the parts of a call are disjoint, and an inode written back within `ext4_add_entry` is not counted
as part of the entry. A part's time = its share of a call's samples x the call's processor time without `perf`.
"""

import bisect
import collections
import glob
import re
import statistics
import sys

# Part: the functions that begin it. "vfs" is what tmpfs needs as well, also where ext4 calls it.
PARTS = {
    "journal_handle": "jbd2__journal_start __ext4_journal_start_sb __ext4_journal_start_reserved __ext4_journal_stop "
    "jbd2_journal_stop ext4_journal_check_start xfs_trans_alloc xfs_trans_alloc_icreate xfs_trans_alloc_inode "
    "xfs_trans_alloc_dir __xfs_trans_commit xfs_trans_commit xfs_trans_roll",
    "journal_block": "__ext4_journal_get_write_access __ext4_journal_get_create_access __ext4_handle_dirty_metadata "
    "jbd2_journal_get_write_access jbd2_journal_get_create_access jbd2_journal_dirty_metadata __ext4_forget "
    "xlog_cil_commit",
    "dentry_hash": "dx_probe",
    "dir_split": "do_split",
    "dentry_find": "__ext4_find_entry xfs_dir_lookup xfs_dir_lookup_args",
    "dentry_insert": "ext4_add_entry xfs_dir_createname xfs_dir_createname_args",
    "dentry_remove": "ext4_delete_entry xfs_dir_removename xfs_dir_removename_args",
    "dir_block_init": "ext4_init_new_dir xfs_dir_init",
    "inode_alloc": "__ext4_new_inode xfs_dialloc xfs_icreate",
    "inode_free": "ext4_free_inode xfs_ifree xfs_difree",
    "inode_update": "__ext4_mark_inode_dirty ext4_dirty_inode xfs_trans_log_inode",
    "inode_read": "__ext4_iget xfs_iget",
    "orphan": "ext4_orphan_add ext4_orphan_del xfs_iunlink xfs_iunlink_remove",
    "extent_alloc": "ext4_mb_new_blocks ext4_mb_regular_allocator xfs_bmap_btalloc xfs_alloc_vextent_start_ag "
    "xfs_alloc_vextent_near_bno",
    "extent_free": "ext4_free_blocks ext4_discard_preallocations xfs_free_extent __xfs_free_extent",
    "extent_update": "ext4_ext_map_blocks ext4_ext_insert_extent ext4_ext_truncate ext4_ext_remove_space "
    "ext4_es_insert_extent ext4_es_remove_extent ext4_truncate ext4_punch_hole ext4_ext_tree_init "
    "xfs_bmapi_write xfs_bunmapi xfs_bmapi_convert_delalloc",
    "delayed": "ext4_da_write_begin ext4_da_write_end ext4_da_get_block_prep ext4_insert_delayed_blocks",
    "xattr": "ext4_xattr_set ext4_xattr_get xfs_attr_set",
    "vfs": "new_inode alloc_inode destroy_inode d_instantiate_new d_instantiate d_splice_alias insert_inode_locked "
    "unlock_new_inode truncate_inode_pages_final truncate_inode_pages_range truncate_pagecache clear_inode iput "
    "generic_update_time setattr_copy setattr_prepare posix_acl_chmod posix_acl_create inode_init_owner "
    "dquot_initialize d_tmpfile file_update_time __mark_inode_dirty security_inode_init_security drop_nlink "
    "dentry_open generic_file_open fault_in_iov_iter_readable copy_folio_from_iter_atomic balance_dirty_pages_ratelimited",
}
PART_OF = {f: part for part, names in PARTS.items() for f in names.split()}
OWN = re.compile(r"_*(ext4|jbd2|xfs|xlog|btrfs|shmem|simple)_")
WAITS = re.compile(
    r".*(spin_lock_slowpath|spin_on_owner|_lock_slowpath|down_(read|write)_slowpath|osq_lock|mutex_lock.*|spin_lock.*"
    r"|read_lock.*|write_lock.*|__raw_callee_save.*|lock_slowpath|rwsem_.*|down_write.*|down_read.*|__pv_.*|_raw_.*)$"
)


def part_of(chain):
    for f in chain:
        if f in PART_OF:
            return PART_OF[f]
        if OWN.match(f):
            # A helper of a part that was inlined elsewhere: the next function that is named decides.
            continue
    return "other" if any(OWN.match(f) for f in chain) else "vfs"


def waits_in(chain):
    """The function that waits for a lock, or nothing."""
    for i, f in enumerate(chain[:6]):
        if f.endswith(("slowpath", "spin_on_owner", "osq_lock", "optimistic_spin")):
            rest = [g for g in chain[i:] if not WAITS.match(g)]
            return " < ".join(rest[:2])
    return None


def phases(path):
    """Name, calls, ns of processor and of wall time, start and end of each kind of call, in order."""
    out = []
    for line in open(path):
        name, calls, cpu, wall, start, end = line.rstrip("\n").split("\t")
        out.append((name, int(calls), float(cpu), float(wall), int(start) / 1e9, int(end) / 1e9))
    return out


def stacks(path):
    """Time and call chain (innermost first, without suffixes of the compiler) of each sample."""
    when, chain = None, []
    for line in open(path):
        line = line.rstrip()
        if not line:
            if when is not None:
                yield when, chain
            when, chain = None, []
        elif line[0] not in " \t":
            when = float(line.split()[1].rstrip(":"))
        else:
            words = line.split(None, 1)
            chain.append(words[1].split(".")[0] if len(words) > 1 else "?")
    if when is not None:
        yield when, chain


class Locator:
    """The kind of call that was under way at a time."""

    def __init__(self, table):
        self.table, self.starts = table, [p[4] for p in table]

    def __call__(self, when):
        k = bisect.bisect(self.starts, when) - 1
        return self.table[k][0] if k >= 0 and when <= self.table[k][5] else None


def plain(stem):
    """Median over the runs of each kind's processor and wall time, and how far the quartiles lie apart."""
    cpu, wall = collections.defaultdict(list), collections.defaultdict(list)
    for path in sorted(glob.glob(stem + ".plain.*")):
        for name, _, c, w, *_ in phases(path):
            cpu[name].append(c)
            wall[name].append(w)
    spread = {}
    for name, values in cpu.items():
        q = statistics.quantiles(values, n=4) if len(values) > 1 else [values[0]] * 3
        spread[name] = (q[2] - q[0]) / statistics.median(values)
    middle = lambda table: {k: statistics.median(v) for k, v in table.items()}
    return middle(cpu), middle(wall), spread


def shares(stem):
    """Samples of each kind of call by part, and those that wait for a lock by who waits."""
    parts, waits = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter)
    for path in sorted(glob.glob(stem + ".perf.*.tsv")):
        where = Locator(phases(path))
        for when, chain in stacks(path[:-3] + "txt"):
            name = where(when)
            if name is None:
                continue
            parts[name][part_of(chain)] += 1
            lock = waits_in(chain)
            if lock:
                waits[name][lock] += 1
    return parts, waits


def parts_ns(stem):
    """Nanoseconds of each part of each kind of call."""
    cpu, _, _ = plain(stem)
    parts, _ = shares(stem)
    return {n: {p: cpu[n] * k / sum(c.values()) for p, k in c.items()} for n, c in parts.items() if n in cpu}


EVENT = re.compile(r"\s*([0-9.]+):\s+(\w+):(\w+):(.*)")


def counts(stem):
    """Tracepoints that one call of each kind passes; "joined" = blocks that were new to the transaction."""
    table = phases(stem + ".trace.tsv")
    where, calls = Locator(table), collections.Counter()
    for name, n, *_ in table:
        calls[name] += n
    out = collections.defaultdict(collections.Counter)
    for line in open(stem + ".trace.txt"):
        m = EVENT.match(line)
        name = m and where(float(m[1]))
        if not name:
            continue
        if m[3] == "jbd2_handle_stats":
            out[name]["joined"] += int(re.search(r"dirtied_blocks (-?\d+)", m[4])[1])
        else:
            out[name][m[3]] += 1
    return {n: {e: k / calls[n] for e, k in c.items()} for n, c in out.items()}


def solve(rows, right):
    """Non-negative least squares by coordinate descent; an equation weighs by the inverse of its right side."""
    n = len(rows[0])
    scaled = [([a / b for a in row], 1.0) for row, b in zip(rows, right) if b > 0]
    x = [0.0] * n
    for _ in range(20000):
        for j in range(n):
            num = den = 0.0
            for row, b in scaled:
                if row[j]:
                    num += row[j] * (b - sum(row[k] * x[k] for k in range(n) if k != j))
                    den += row[j] ** 2
            if den:
                x[j] = max(0.0, num / den)
    return x


def show(head, body):
    width = [max(len(str(r[i])) for r in [head] + body) for i in range(len(head))]
    for row in [head] + body:
        print("  ".join(str(v).ljust(w) if i == 0 else str(v).rjust(w) for i, (v, w) in enumerate(zip(row, width))))
    print()


def report_calls(out, systems):
    print("Processor time of one call, ns (median of the runs), and its ratio to tmpfs\n")
    data = {s: plain(f"{out}/{s}") for s in systems}
    base = data[systems[0]][0]
    body = []
    for name in base:
        row = [name]
        for s in systems:
            c = data[s][0].get(name)
            row.append("-" if c is None else f"{c:.0f}" + ("" if s == systems[0] else f" ({c / base[name]:.1f})"))
        row.append(f"{max(data[s][2].get(name, 0) for s in systems):.2f}")
        body.append(row)
    show(["call"] + systems + ["quartiles apart / median"], body)


def report_parts(out, system):
    print(f"{system}: parts of a call, ns of processor time\n")
    table = parts_ns(f"{out}/{system}")
    names = [p for p in list(PARTS) + ["other"] if any(p in t for t in table.values())]
    show(["call"] + names, [[n] + [f"{t.get(p, 0):.0f}" for p in names] for n, t in table.items()])


def report_counts(out):
    print("ext4: tracepoints passed by one call\n")
    table = counts(f"{out}/ext4.d40")
    events = sorted({e for t in table.values() for e in t})
    short = lambda e: e.replace("ext4_", "").replace("jbd2_", "")
    show(["call"] + [short(e) for e in events], [[n] + [f"{t.get(e, 0):.2f}" for e in events] for n, t in table.items()])


def report_waits(out, stems):
    print("Samples that wait for a lock, percent of a call's, and who waits\n")
    for stem in stems:
        parts, waits = shares(f"{out}/{stem}")
        for name in ("mkdir", "create", "link", "rename", "rename across", "unlink empty", "append"):
            total = sum(parts[name].values())
            top = ", ".join(f"{who} {100 * k / total:.0f} %" for who, k in waits[name].most_common(3) if total)
            if total and top:
                print(f"  {stem:22} {name:14} {100 * sum(waits[name].values()) / total:3.0f} %: {top}")
    print()
