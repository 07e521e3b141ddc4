#!/usr/bin/env bash
# kill -9 of programs with direct access, and of the mount that serves them, at random moments. In turn:
#   server:  the mount, under a program that writes, fsyncs and says so; mounted again, everything acknowledged is there
#   client:  that program; the mount goes on serving another one, and what was acknowledged is there through FUSE at once
#   sqlite:  the mount, under SQLite commits (both journals)
# After each: nobody hangs (every wait has a limit), the next program is served. At the end, and every tenth time, fsck.
#
#   scripts/kill-direct.sh [--fs bytefs,ext4,devfs] [--kills 200] [--seed 1] [--durability process|machine]
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Exit code 0: nothing was lost; 1: something was; 2: no mount possible. Needs root, sqlite3, python3.
. "$(dirname "$0")/common.sh"
systems=bytefs,ext4,devfs kills=200 seed=1 durability=process
while [ $# -gt 0 ]; do
    case $1 in
        --fs) systems=$2; shift ;;
        --kills) kills=$2; shift ;;
        --seed) seed=$2; shift ;;
        --durability) durability=$2; shift ;;
        *) usage 2 11 ;;
    esac
    shift
done
needs "$granary" sqlite3 python3
mount_point
RANDOM=$seed

# Overwrites records of a file in place and appends to a log; each line of its output is what was acknowledged: record, version.
cat >"$work/write.py" <<'PY'
import os, sys, random
d, first = sys.argv[1], int(sys.argv[2])
f = os.open(f"{d}/records", os.O_CREAT | os.O_RDWR, 0o644)
log = os.open(f"{d}/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
n = first
while True:
    r = n % 64
    os.pwrite(f, n.to_bytes(8, "little") * 96, r * 768); os.fsync(f)
    os.write(log, b"%d\n" % n); os.fdatasync(log)
    print(n, flush=True); n += 1
PY
cat >"$work/verify.py" <<'PY'
import sys
d, last = sys.argv[1], int(sys.argv[2])
records = open(f"{d}/records", "rb").read()
for n in range(max(0, last - 63), last + 1):
    got = records[n % 64 * 768 :][:768]
    # The next round's write may have been done, or have been under way, when the kill came.
    words = {int.from_bytes(got[i : i + 8], "little") for i in range(0, 768, 8)}
    if not words <= ({n, n + 64} if n + 64 == last + 1 else {n}): sys.exit(f"record {n % 64}: {sorted(words)}, acknowledged was {n}")
lines = open(f"{d}/log").read().split("\n")
if str(last) not in lines: sys.exit(f"the log lacks {last}, which was acknowledged")
PY
sqlite_writer

lost() { echo "$fs, kill $k: $*"; exit 1; }
serve() {
    "$granary" mount --direct --durability "$durability" --log "$work/log" "$work/img" "$mnt" 2>>"$work/mount.err" >&2 &
    server=$!
    for _ in $(seq 500); do mountpoint -q "$mnt" && "$granary" stat --json "$mnt" >/dev/null 2>&1 && return; sleep 0.02; done
    cat "$work/mount.err"; exit 2
}
direct() { timeout 60 "$granary" exec "$mnt" -- "$@"; }
a_while() { sleep "$(awk "BEGIN{print 0.15 + $RANDOM / 32768 * 0.35}")"; }
ends() { # a process, within a minute
    for _ in $(seq 600); do kill -0 "$1" 2>/dev/null || { wait "$1"; return; } 2>/dev/null; sleep 0.1; done
    lost "process $1 hangs"
}

for fs in ${systems//,/ }; do
    rm -rf "$work/img"
    "$granary" mkfs --fs "$fs" --size 1GiB "$work/img" >/dev/null 2>&1 || exit 2
    last=-1 k=0 clients=0
    declare -A rows=([delete]=0 [wal]=0)
    serve
    while [ $k -lt "$kills" ]; do
        k=$((k + 1)) kind=$((k % 4))
        case $kind in
            0) mode=delete ;;
            *) mode=wal ;;
        esac
        if [ $((kind % 2)) = 0 ]; then
            mkdir -p "$mnt/$mode"
            "$granary" exec "$mnt" -- python3 "$work/sqlite.py" "$mnt/$mode" $mode >"$work/acks" 2>/dev/null &
        else
            "$granary" exec "$mnt" -- python3 "$work/write.py" "$mnt" $((last + 1)) >"$work/acks" 2>/dev/null &
        fi
        writer=$!
        # At a random moment of its work, not of its start.
        for _ in $(seq 500); do [ -s "$work/acks" ] && break; sleep 0.02; done
        a_while
        if [ $kind = 1 ]; then
            clients=$((clients + 1))
            kill -9 $writer
            ends $writer
            direct cat "$mnt/records" >/dev/null 2>&1 || [ ! -e "$mnt/records" ] || lost "another program is not served"
        else
            kill -9 $server
            ends $server
            umount -l "$mnt" 2>/dev/null
            ends $writer
            serve
        fi
        got=$(tail -n 1 "$work/acks")
        if [ $((kind % 2)) = 0 ]; then
            rows[$mode]=${got:-${rows[$mode]}}
            if [ "${rows[$mode]}" -gt 0 ]; then
                [ "$(direct sqlite3 "$mnt/$mode/db" 'PRAGMA integrity_check')" = ok ] || lost "integrity of $mode/db"
                n=$(sqlite3 "$mnt/$mode/db" 'SELECT count(*) FROM t')
                [ "$n" -ge "${rows[$mode]}" ] || lost "$n rows of ${rows[$mode]} that were committed"
            fi
        else
            last=${got:-$last}
            [ "$last" -lt 0 ] || timeout 60 python3 "$work/verify.py" "$mnt" "$last" || lost "acknowledged bytes"
            [ "$last" -lt 0 ] || direct python3 "$work/verify.py" "$mnt" "$last" || lost "acknowledged bytes, seen directly"
        fi
        if [ $((k % 10)) = 0 ] || [ $k = "$kills" ]; then
            timeout 120 "$granary" umount "$mnt" || lost "umount"
            ends $server
            "$granary" fsck "$work/img" >"$work/fsck" 2>&1 || { cat "$work/fsck"; lost "fsck"; }
            [ $k = "$kills" ] || serve
        fi
    done
    echo "$fs: $kills kills, $clients of them of programs; $((last + 1)) writes, ${rows[delete]} and ${rows[wal]} commits (rollback, WAL): nothing lost"
done
