#!/usr/bin/env bash
# Time per operation on mounts, side by side: ours (image, process and machine mode), the kernel's ext4 on a loop file
# on the same disk, and a FUSE file system in memory that does nothing (crates/granary-mount/examples/noop.rs).
#
#   scripts/bench-mount.sh [--rounds N] [--fs bytefs] [--dir DIR]     DIR: where image and loop file lie (default: a
#                                                                     temporary directory; its disk is measured)
# direct: the same program with direct access to the same two mounts (`granary exec`). With one processor both sides of it sleep and are
# woken, with two they spin for a little: CPU=0 and CPU=0,1 are two different figures.
#
#   BIN=directory of the release binaries (default: target/release); CPU=processor to pin everything to (default 0; a list, as of taskset,
#   because waking an idle virtual processor costs ten times a round trip; CPU=none: do not pin)
#   PRE=command to start servers and clients with; `PRE="chrt -f 10"` keeps other work of a busy machine away from them
#
# create+fsync: a new file with 4 KiB in it. x16: sixteen threads, each on a file or in a directory of its own; the time of
# the whole run for each operation. Both FUSE file systems serve with as many threads as processors that they may use, at
# least two.
#
# floor: what a FUSE file system on this disk that is safe from a crash of the machine takes at least: the no-op's time, and for
# each sync of the host that the operation cannot do without 8 KiB written past the page cache and synced by a program that does
# nothing else ("bare sync"; sixteen threads may share one, theirs is left out). Above ext4 / floor no such file system gets.
#
# fstat: 64 B are written, and the file is asked for its size.
#
# Rounds are interleaved; each figure is the median of the rounds' medians. Needs root. Builds nothing: first
#   cargo build --release && cargo build --release -p granary-mount --examples
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${BIN:-${CARGO_TARGET_DIR:-$here/target}/release} cpu=${CPU:-0} rounds=5 fs=bytefs dir=
while [ $# -gt 0 ]; do
    case $1 in
        --rounds) rounds=$2; shift ;;
        --fs) fs=$2; shift ;;
        --dir) dir=$2; shift ;;
        *) sed -n '2,27p' "$0"; exit 2 ;;
    esac
    shift
done
for b in granary libgranary_userlib.so examples/noop examples/mountbench; do
    [ -e "$bin/$b" ] || { echo "bench-mount.sh: $bin/$b is missing: see --help" >&2; exit 2; }
done
pin() { if [ "$cpu" = none ]; then ${PRE:-} "$@"; else ${PRE:-} taskset -c "$cpu" "$@"; fi; }
work=$(mktemp -d ${dir:+-p "$dir"})
cleanup() {
    for m in process machine; do mountpoint -q "$work/$m" && timeout 60 "$bin/granary" umount "$work/$m"; done
    for m in noop ext4; do mountpoint -q "$work/$m" && umount "$work/$m"; done
    rm -rf --one-file-system "$work"
} 2>/dev/null
trap cleanup EXIT
mkdir "$work"/{process,machine,noop,ext4,disk}
for m in process machine; do
    "$bin/granary" mkfs --fs "$fs" --size 2GiB "$work/$m.img" 2>/dev/null
    pin "$bin/granary" mount --direct --daemon --durability $m "$work/$m.img" "$work/$m" 2>/dev/null
done
pin "$bin/examples/noop" "$work/noop" &
truncate -s 2G "$work/loop" && mkfs.ext4 -q -F "$work/loop" && mount -o loop "$work/loop" "$work/ext4"
until mountpoint -q "$work/noop"; do sleep 0.1; done
mkdir "$work/tree"
for d in $(seq 1 40); do mkdir "$work/tree/d$d"; for f in $(seq 1 50); do head -c $((f * 97)) /dev/zero >"$work/tree/d$d/f$f"; done; done
tar cf "$work/tree.tar" -C "$work/tree" .

now() { date +%s%N; }
once() { # mount, operation -> "operation median"; direct_MOUNT: with direct access
    local dir=${1#direct_} way=()
    [ "$dir" = "$1" ] || way=("$bin/granary" exec "$work/$dir" --)
    set -- "$dir" "$2"
    case $2 in
        untar) # per file; 2,000 files in 40 directories
            local t; mkdir "$work/$1/t"; t=$(now); pin "${way[@]}" tar xf "$work/tree.tar" -C "$work/$1/t"
            echo "untar $((($(now) - t) / 2000))"; rm -rf "$work/$1/t" ;;
        sqlite_*)
            local t n=500; rm -f "$work/$1"/db*
            "${way[@]}" sqlite3 "$work/$1/db" "PRAGMA journal_mode=${2#sqlite_}; CREATE TABLE t(x);" >/dev/null
            t=$(now); seq $n | awk '{print "INSERT INTO t VALUES(" $1 ");"}' | pin "${way[@]}" sqlite3 "$work/$1/db"
            echo "$2 $((($(now) - t) / n))" ;;
        *x16)
            echo "$2 $(pin "${way[@]}" "$bin/examples/mountbench" "$work/$1" "${2%x16}" 200 16 | cut -d' ' -f2)" ;;
        *)
            local n=5000
            case $1:$2 in ext4:*fsync | machine:*fsync) n=500 ;; esac
            pin "${way[@]}" "$bin/examples/mountbench" "$work/$1" "$2" $n ;;
    esac
}
ops="create open stat fstat write4k write4k+fsync write64+fsync create+fsync direct_read cached_read untar"
command -v sqlite3 >/dev/null && ops="$ops sqlite_delete sqlite_wal"
ops="$ops write4k+fsyncx16 create+fsyncx16"
for _ in $(seq 1 "$rounds"); do
    for op in $ops; do for m in process machine direct_process direct_machine noop ext4; do
        echo "$m $(once $m "$op")"
    done; done
    echo "disk $(pin "$bin/examples/mountbench" "$work/disk" bare_sync 500)"
done >"$work/results"
awk -v fs="$fs" '
    { key = $1 " " $2; n[key]++; v[key, n[key]] = $3; if ($1 != "disk" && !seen[$2]++) order[++ops] = $2 }
    function median(key,   i, j, t, a) {
        for (i = 1; i <= n[key]; i++) a[i] = v[key, i]
        for (i = 2; i <= n[key]; i++) for (j = i; j > 1 && a[j-1] > a[j]; j--) { t = a[j]; a[j] = a[j-1]; a[j-1] = t }
        return a[int((n[key] + 1) / 2)] / 1000
    }
    END {
        # A commit with the rollback journal syncs the journal, its header and the database.
        syncs["write4k+fsync"] = syncs["write64+fsync"] = syncs["create+fsync"] = syncs["sqlite_wal"] = 1; syncs["sqlite_delete"] = 3
        bare = median("disk bare_sync")
        if (bare) printf "bare sync: %.1f us\n\n", bare
        else print "bare sync: not to be had on this disk; the floor is without it\n"
        printf "| us per operation | %s, process | %s, machine | no-op FUSE | kernel ext4 | process / no-op | ext4 / machine | floor | machine / floor | ext4 / floor | direct, process | no-op / direct | direct, machine | ext4 / direct |\n", fs, fs
        print "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
        for (i = 1; i <= ops; i++) {
            o = order[i]; p = median("process " o); m = median("machine " o); z = median("noop " o); e = median("ext4 " o)
            dp = median("direct_process " o); dm = median("direct_machine " o)
            f = z + syncs[o] * bare
            sub(/x16$/, " x16", o)
            printf "| %s | %.1f | %.1f | %.1f | %.1f | %.2fx | %.2fx | %.1f | %.2fx | %.2fx | %.1f | %.2fx | %.1f | %.2fx |\n", o, p, m, z, e, p / z, e / m, f, m / f, e / f, dp, z / dp, dm, e / dm
        }
    }' "$work/results"
