"""Prints what measure.sh left in a directory: calls, parts of calls, rows for the testbed and how well they add up.

Rows come from the parts (`attribute.py`): a row is the median over the calls of "part / how often the call does it". What a
call does is in UPDATES. The check is independent of the samples: the rows times the counts against what ext4 needs beyond
tmpfs, and a least-squares solution for what the rows would have to be multiplied by, group by group.
"""

import math
import statistics
import sys

import attribute as a

D = 40  # names of a directory, see measure.sh

# What one call on ext4 does. Handles, inodes written back ("inode_update"), inodes and extents allocated and freed are
# counts of tracepoints (printed before); blocks are the distinct ones that a handle announces: inode bitmap, group
# descriptor, inode table, directory block, block bitmap, superblock (orphan list). "dentry_scan": entries passed over by the
# search for the name, for a place and for the entry to remove, means over a directory that fills or empties in order.
# "extent_search": the allocator looked through groups, found no preallocation.
FILL, ALL = D / 2 + 1.5, D + 2
UPDATES = {
    "mkdir": "journal_handle 1 journal_block 7 journal_join 1.11 dentry_find 1 dentry_insert 1 dentry_scan %g dir_block_init 1"
    " inode_alloc 1 inode_update 8 extent_alloc 1 extent_search 1 extent_update 1" % (2 * FILL),
    "create": "journal_handle 1 journal_block 5 journal_join .11 dentry_find 1 dentry_insert 1 dentry_scan %g inode_alloc 1"
    " inode_update 4" % (2 * FILL),
    "symlink": "journal_handle 1 journal_block 5 journal_join .11 dentry_find 1 dentry_insert 1 dentry_scan %g inode_alloc 1"
    " inode_update 4" % (2 * (D + FILL)),
    "link": "journal_handle 1 journal_block 3 journal_join .1 dentry_find 1 dentry_insert 1 dentry_scan %g inode_update 2"
    % (2 * (D + FILL)),
    "unlink second": "journal_handle 1 journal_block 3 journal_join .1 dentry_find 1 dentry_remove 1 dentry_scan %g"
    " inode_update 2" % (2 * ALL),
    "unlink symlink": "journal_handle 2 journal_block 7 journal_join .11 dentry_find 1 dentry_remove 1 dentry_scan %g"
    " inode_update 4 inode_free 1 orphan 2" % (2 * ALL),
    "unlink empty": "journal_handle 2 journal_block 7 journal_join .1 dentry_find 1 dentry_remove 1 dentry_scan 4"
    " inode_update 4 inode_free 1 orphan 2",
    "unlink 1": "journal_handle 2 journal_block 8 journal_join .11 dentry_find 1 dentry_remove 1 dentry_scan 4"
    " inode_update 9 inode_free 1 orphan 2 extent_free 1 extent_update 1",
    # The directory's inode is not in memory: caches were dropped after it was made.
    "rmdir": "journal_handle 2 journal_block 8 journal_join .11 dentry_find 2 dentry_remove 1 dentry_scan 6 inode_read 1"
    " inode_update 9 inode_free 1 orphan 2 extent_free 1 extent_update 1",
    "rename": "journal_handle 1 journal_block 3 journal_join .1 dentry_find 3 dentry_insert 1 dentry_remove 1 dentry_scan %g"
    " inode_update 3" % (2 * ALL + 3 * FILL),
    "rename across": "journal_handle 1 journal_block 5 journal_join .13 dentry_find 3 dentry_insert 1 dentry_remove 1"
    " dentry_scan %g inode_update 3" % (3 * FILL + 4),
    "chmod": "journal_handle 1 journal_block 1 journal_join .07 inode_update 1 inode_dirty 1",
    "chmod one": "journal_handle 1 journal_block 1 inode_update 1",
    "utimes": "journal_handle 1 journal_block 1 journal_join .07 inode_update 1 inode_dirty 1",
    "chmod far": "journal_handle 1 journal_block 1 journal_join 1 inode_update 1 inode_dirty 1",
    "setxattr": "journal_handle 1 journal_block 1 journal_join .07 xattr_update 1",
    "truncate 1": "journal_handle 3 journal_block 7 journal_join .07 inode_update 7 orphan 2 extent_free 1 extent_update 1",
    "fallocate 1": "journal_handle 2 journal_block 4 journal_join .07 inode_update 4 extent_alloc 1 extent_search 1 extent_update 1",
    "extent": "journal_handle 1 journal_block 4 inode_update 2 extent_alloc 1 extent_search 1 extent_update 1",
    "punch": "journal_handle 1 journal_block 4 inode_update 3 extent_free 1 extent_update 1",
}
# Every call has handles, blocks and inodes written back alike, so the solution cannot tell those apart: one group.
GROUPS = {
    "journal and inode_update": "journal_handle journal_block journal_join inode_update inode_dirty xattr_update",
    "directory": "dentry_find dentry_insert dentry_remove dentry_scan dir_block_init",
    "inode": "inode_alloc inode_free orphan inode_read",
    "extent": "extent_alloc extent_search extent_free extent_update",
}
# Processor time on the machine of the testbed's other rows, ns; tmpfs: create and close, open and
# close, unlink ([host.costs] of granary-testbed/testbeds/bytefs-emulator.toml says where they come from).
REFERENCE = {"create": 1500, "open": 1000, "unlink empty": 1800}


def counts_of(call):
    words = UPDATES[call].split()
    return {name: float(n) for name, n in zip(words[::2], words[1::2])}


def slope(points):
    """Least squares: value at 0 and rise per unit."""
    n = len(points)
    mx, my = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    k = sum((x - mx) * (y - my) for x, y in points) / sum((x - mx) ** 2 for x, _ in points)
    return my - k * mx, k


def rows_of(out):
    """The rows in ns of this machine, each with what it was taken from."""
    parts = {d: a.parts_ns(f"{out}/ext4.d{d}") for d in (10, 40, 100)}
    p = parts[40]
    rows = {}

    def per(row, part, calls, minus=lambda call: 0.0):
        values = [(p[c].get(part, 0) - minus(c)) / counts_of(c)[row] for c in calls]
        low, high = min(values), max(values)
        rows[row] = (statistics.median(values), f"{part} of {', '.join(calls)}: {low:.0f}-{high:.0f}")

    # The scan first: how the directory's parts rise with the entries that they pass over.
    find, insert, remove = [], [], []
    for d, t in parts.items():
        fill, full = d / 2 + 1.5, d + 2
        find += [(fill, t["create"]["dentry_find"]), (full, t["lookup absent"]["dentry_find"])]
        find += [(d + fill, t["link"]["dentry_find"]), (full, t["unlink second"]["dentry_find"])]
        insert += [(fill, t["create"]["dentry_insert"]), (d + fill, t["link"]["dentry_insert"])]
        remove += [(full, t["unlink second"]["dentry_remove"]), (2, t["unlink empty"]["dentry_remove"])]
    for row, points in (("dentry_find", find), ("dentry_insert", insert), ("dentry_remove", remove)):
        base, per_entry = slope(points)
        rows[row] = (base, f"at 0 entries; + {per_entry:.1f} an entry passed over ({len(points)} points)")
    rises = [slope(x)[1] for x in (find, insert, remove)]
    rows["dentry_scan"] = (sum(rises[:2]) / 2, "an entry passed over: find %.1f, insert %.1f, remove %.1f" % tuple(rises))

    indexed = a.parts_ns(f"{out}/ext4.d0")
    rows["dentry_hash"] = (indexed["lookup absent"]["dentry_hash"], "dx_probe of lookup absent, 8000 names: before the leaf's scan")
    rows["dir_split"] = (indexed["create"]["dir_split"], "do_split of create, 8000 names: a name's share of leaves that split")

    per("journal_handle", "journal_handle", ["chmod", "chmod far", "utimes", "create", "link", "rename", "unlink empty", "extent"])
    join = p["chmod far"]["journal_block"] - p["chmod one"]["journal_block"]
    rows["journal_join"] = (join, "journal_block of chmod far - chmod one: a block's first time in the transaction")
    per("journal_block", "journal_block", ["chmod", "utimes", "create", "link", "rename", "unlink empty", "unlink 1", "extent"],
        lambda c: join * counts_of(c).get("journal_join", 0))
    per("dir_block_init", "dir_block_init", ["mkdir"])
    per("inode_alloc", "inode_alloc", ["create", "symlink", "mkdir"])
    per("inode_free", "inode_free", ["unlink empty", "unlink symlink", "unlink 1", "rmdir"])
    per("inode_update", "inode_update", ["create", "mkdir", "link", "rename", "unlink empty", "unlink 1", "chmod", "extent", "punch"])
    per("orphan", "orphan", ["unlink empty", "unlink symlink", "unlink 1", "rmdir", "truncate 1"])
    rows["extent_alloc"] = (p["writeback 1"]["extent_alloc"], "extent_alloc of writeback 1: from a preallocation")
    per("extent_search", "extent_alloc", ["mkdir", "fallocate 1", "extent"], lambda _: rows["extent_alloc"][0])
    per("extent_free", "extent_free", ["unlink 1", "truncate 1", "punch"])
    per("extent_update", "extent_update", ["mkdir", "fallocate 1", "extent", "unlink 1", "truncate 1", "punch"])
    per("xattr_update", "xattr", ["setxattr"])
    base = a.parts_ns(f"{out}/tmpfs.d40")
    common = lambda t, c: t[c]["vfs"] + t[c].get("other", 0)
    queue = [common(p, c) - common(base, c) for c in ("chmod", "chmod far", "utimes")]
    rows["inode_dirty"] = (statistics.median(queue), "VFS part of ext4 - of tmpfs, chmod, chmod far, utimes: "
                           f"{min(queue):.0f}-{max(queue):.0f}; an inode that was clean joins the write-back list")
    cold, warm = p["stat uncached"], p["stat"]
    rows["inode_read"] = (cold["inode_read"] + cold["vfs"] - warm["vfs"],
                          f"stat uncached: {cold['inode_read']:.0f} and the inode and dentry in memory")
    return rows


def main(out):
    systems = ["tmpfs", "ext4", "xfs", "btrfs"]
    a.report_calls(out, [f"{s}.d40" for s in systems])
    a.report_calls(out, [f"{s}.d0" for s in systems[:3]])
    for tag in (".two", ".shared"):
        a.report_calls(out, [f"{s}.d0{tag}" for s in systems[:3]])
    a.report_counts(out)
    for s in ("ext4", "tmpfs", "xfs"):
        a.report_parts(out, f"{s}.d40")
    for d in (10, 100, 0):
        a.report_parts(out, f"ext4.d{d}")
    a.report_waits(out, ["ext4.d0.two", "ext4.d0.shared", "xfs.d0.shared"])

    tmpfs, ext4 = (a.plain(f"{out}/{s}.d40")[0] for s in ("tmpfs", "ext4"))
    factors = {c: ns / tmpfs[c] for c, ns in REFERENCE.items()}
    scale = math.exp(sum(math.log(f) for f in factors.values()) / len(factors))
    rows = rows_of(out)
    print(f"Rows, ns; scaled by {scale:.3f}, the geometric mean of",
          ", ".join(f"{c} {ns}/{tmpfs[c]:.0f}" for c, ns in REFERENCE.items()), "\n")
    a.show(["row", "here", "scaled", ""], [[n, f"{v:.0f}", f"{v * scale:.0f}", why] for n, (v, why) in rows.items()])

    print("Rows x counts against ext4 - tmpfs, ns here\n")
    body, ratios, left, right = [], [], [], []
    for call in UPDATES:
        counts = counts_of(call)
        predicted, measured = sum(n * rows[r][0] for r, n in counts.items()), ext4[call] - tmpfs[call]
        if call in ("fallocate 1", "truncate 1", "extent", "punch"):
            # tmpfs allocates and frees memory here, which ext4 does not: its part in the VFS is the base.
            vfs = a.parts_ns(f"{out}/ext4.d40")[call]
            measured = ext4[call] - vfs["vfs"] - vfs.get("other", 0)
        ratios.append(predicted / measured)
        body.append([call, f"{predicted:.0f}", f"{measured:.0f}", f"{predicted / measured:.2f}"])
        left.append([sum(counts.get(r, 0) * rows[r][0] for r in names.split()) for names in GROUPS.values()])
        right.append(measured)
    a.show(["call", "rows", "measured", "ratio"], body)
    print(f"ratio: {min(ratios):.2f} to {max(ratios):.2f}, median {statistics.median(ratios):.2f}\n")
    print("Least squares: what each group would be multiplied by\n")
    a.show(["group", "factor"], [[g, f"{x:.2f}"] for g, x in zip(GROUPS, a.solve(left, right))])
    big = {s: a.plain(f"{out}/{s}.d0")[0] for s in ("tmpfs", "ext4")}
    for call, ref in (("create", (1500, 7300)), ("unlink empty", (1800, 4500))):
        excess = (big["ext4"][call] - big["tmpfs"][call]) * scale
        print(f"one directory of all names, {call}: {ref[0]} + {excess:.0f} = {ref[0] + excess:.0f} ns scaled; there {ref[1]}")


if __name__ == "__main__":
    main(sys.argv[1])
