#!/usr/bin/env bash
# What kernel file systems cost the processor per call and per kind of update: the measurement of docs/HOST_COSTS.md.
# File systems lie in images on a tmpfs, so no drive takes part; one thread, pinned; processor time of the thread alone.
#
#   scripts/host-costs/measure.sh [--runs 5] [--calls 8000] [--cpu 0] [--quick] [--keep DIRECTORY]
#
# --quick: two runs of each and no second thread. --keep: leaves the raw files there.
# Needs root, gcc, perf with the software clock (cpu-clock), python3, mkfs.ext4, mkfs.xfs, mkfs.btrfs; 12 GB of memory.
# Exit code 0: measured; 1: a step failed; 2: something is missing. It unmounts and deletes whatever it made.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
runs=5 calls=8000 cpu=0 quick= keep=
while [ $# -gt 0 ]; do
    case $1 in
        --runs) runs=$2; shift ;;
        --calls) calls=$2; shift ;;
        --cpu) cpu=$2; shift ;;
        --keep) keep=$2; shift ;;
        --quick) quick=1 runs=2 ;;
        *) sed -n '2,9p' "$0"; exit 2 ;;
    esac
    shift
done
for tool in gcc perf python3 mkfs.ext4 mkfs.xfs mkfs.btrfs taskset losetup; do
    command -v "$tool" >/dev/null || { echo "measure.sh: $tool is missing" >&2; exit 2; }
done
[ "$(id -u)" = 0 ] || { echo "measure.sh: it mounts file systems: run it as root" >&2; exit 2; }

work=$(mktemp -d)
cleanup() {
    mountpoint -q "$work/tmp/mnt" && umount "$work/tmp/mnt"
    mountpoint -q "$work/tmp" && umount "$work/tmp"
    rm -rf --one-file-system "$work"
} 2>/dev/null
trap cleanup EXIT
trap 'exit 1' INT TERM
out=${keep:-$work/out}
mkdir -p "$out" "$work/tmp"
gcc -O2 -Wall -Wextra -pthread "$here/host_ops.c" -o "$work/host_ops"
mount -t tmpfs -o size=12G none "$work/tmp"
mkdir "$work/tmp/mnt"
# A virtual machine's first touch of a page costs what no file system does: touch the memory once before.
head -c 8G /dev/zero >"$work/tmp/warm" && rm "$work/tmp/warm"

# A fresh file system of kind $1 at $work/tmp/mnt; tmpfs itself is just that directory.
fresh() {
    rm -f "$work/tmp/image"
    case $1 in
        tmpfs) mount -t tmpfs -o size=6G none "$work/tmp/mnt"; return ;;
    esac
    truncate -s 8G "$work/tmp/image"
    case $1 in
        ext4) mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$work/tmp/image" ;;
        *) "mkfs.$1" -q -f "$work/tmp/image" >"$work/mkfs" 2>&1 || { cat "$work/mkfs" >&2; exit 1; } ;;
    esac
    mount -o loop "$work/tmp/image" "$work/tmp/mnt"
}
gone() { umount "$work/tmp/mnt"; }

# plain|perf|trace FS NAMES_PER_DIRECTORY RUN [more arguments of host_ops]: files $out/FS.dNAMES[.tag].HOW.RUN...
tag=
one() {
    local how=$1 fs=$2 names=$3 run=$4 n=$calls stem at=$cpu
    shift 4
    stem=$out/$fs.d$names$tag
    [ -z "$tag" ] || { n=$((calls / 2)) at=0-1; }
    fresh "$fs"
    local command=(taskset -c "$at" "$work/host_ops" -d "$names" "$@")
    case $how in
        plain) "${command[@]}" -n "$n" "$work/tmp/mnt" >"$stem.plain.$run" ;;
        perf)
            # 99,991 ns between samples: no multiple of anything that ticks.
            perf record -q -e cpu-clock -c 99991 -g -k mono -o "$work/tmp/data" \
                "${command[@]}" -n "$n" "$work/tmp/mnt" >"$stem.perf.$run.tsv"
            perf script -i "$work/tmp/data" -F tid,time,ip,sym >"$stem.perf.$run.txt" 2>/dev/null ;;
        trace)
            local events=jbd2:jbd2_handle_start,jbd2:jbd2_handle_stats,ext4:ext4_mark_inode_dirty
            events+=,ext4:ext4_allocate_inode,ext4:ext4_free_inode,ext4:ext4_allocate_blocks,ext4:ext4_free_blocks
            events+=,ext4:ext4_es_insert_extent,ext4:ext4_es_remove_extent,ext4:ext4_load_inode
            perf record -q -c 1 -m 4096 -k mono -e "$events" -o "$work/tmp/data" \
                "${command[@]}" -n $((n / 8)) "$work/tmp/mnt" >"$stem.trace.tsv"
            perf script -i "$work/tmp/data" -F time,event,trace >"$stem.trace.txt" 2>/dev/null ;;
    esac
    rm -f "$work/tmp/data"
    gone
}

systems="tmpfs ext4 xfs btrfs"
one trace ext4 40 1
for run in $(seq "$runs"); do
    echo "measure.sh: run $run of $runs" >&2
    for fs in $systems; do
        one plain "$fs" 40 "$run"
        one perf "$fs" 40 "$run"
    done
    for names in 10 100 0; do
        one plain ext4 "$names" "$run"
        one perf ext4 "$names" "$run"
    done
    one plain tmpfs 0 "$run"
    one plain xfs 0 "$run"
done
if [ -z "$quick" ]; then
    for run in $(seq "$runs"); do
        for fs in tmpfs ext4 xfs; do
            tag=.two one plain "$fs" 0 "$run" -t 2
            tag=.shared one plain "$fs" 0 "$run" -t 2 -s
        done
    done
    tag=.two one perf ext4 0 1 -t 2
    tag=.shared one perf ext4 0 1 -t 2 -s
    tag=.shared one perf xfs 0 1 -t 2 -s
fi
PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 python3 "$here/report.py" "$out"
