# What the scripts that kill mounts have in common. To be sourced, from a script of this directory, whose arguments it does not read.
#
#   here, granary     the repository; the program (GRANARY, or target/release/granary under CARGO_TARGET_DIR or the repository)
#   usage FIRST LAST  prints these lines of the script, which say how it is called, and ends it with 2
#   needs TOOL...     ends the script with 2 where one is missing
#   scratch           makes a directory, $work, which goes at the end of the script; `cleanup` is called first, if there is one

set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
granary=${GRANARY:-${CARGO_TARGET_DIR:-$here/target}/release/granary}

usage() {
    sed -n "$1,$2p" "$0"
    exit 2
}

needs() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "${0##*/}: $tool is missing" >&2; exit 2; }
    done
}

cleanup() { :; }
scratch() {
    work=$(mktemp -d)
    trap '{ cleanup; rm -rf --one-file-system "$work"; } 2>/dev/null' EXIT
}

# A mount point, $mnt, in the scratch directory. A writer that comes too late must not find a plain directory and take that for
# the mount.
mount_point() {
    scratch
    mnt=$work/mnt
    mkdir "$mnt"
    chattr +i "$mnt" || exit 2
    cleanup() {
        mountpoint -q "$mnt" && umount -l "$mnt"
        chattr -i "$mnt"
    }
}

# A program that commits rows to a database in the directory of its first argument, with the journal mode of its second, until the
# mount dies; each line of its output is a commit that was acknowledged.
sqlite_writer() {
    cat >"$work/sqlite.py" <<'PY'
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
# EXTRA: in rollback mode a commit is the removal of the journal, and only then its directory is synced.
db.execute(f"PRAGMA journal_mode={sys.argv[2]}"); db.execute("PRAGMA synchronous=EXTRA")
db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x BLOB)")
n = (db.execute("SELECT max(id) FROM t").fetchone()[0] or 0) + 1
while True:
    db.execute("BEGIN"); db.execute("INSERT INTO t VALUES(?, randomblob(200))", (n,)); db.execute("COMMIT")
    # SQLite takes a directory that it cannot open for one that needs no sync: a commit counts if the server still lived.
    os.statvfs(sys.argv[1])
    print(n, flush=True); n += 1
PY
}
