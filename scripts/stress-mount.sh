#!/usr/bin/env bash
# Endurance of a mount: writes many times the image's size through it, and watches that the server's memory and the image's
# size on disk stay bounded; then everything that is left is verified, and fsck looks at the image.
#
#   scripts/stress-mount.sh [--fs bytefs,ext4] [--size 4GiB] [--gib 50] [--memory 1536]     memory: allowed, in MiB
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Sixteen threads of mixed work with a check at the end are a test: GRANARY_SECONDS=300 GRANARY_FS=bytefs,ext4
# cargo test --release -p granary-mount --test it parallel
# Exit code 0: bounded and whole; 1: not; 2: no mount possible. Needs root and fio.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
granary=${GRANARY:-${CARGO_TARGET_DIR:-$here/target}/release/granary}
systems=bytefs,ext4 size=4GiB gib=50 memory=1536
while [ $# -gt 0 ]; do
    case $1 in
        --fs) systems=$2; shift ;;
        --size) size=$2; shift ;;
        --gib) gib=$2; shift ;;
        --memory) memory=$2; shift ;;
        *) sed -n '2,11p' "$0"; exit 2 ;;
    esac
    shift
done
for tool in "$granary" fio; do
    command -v "$tool" >/dev/null || { echo "stress-mount.sh: $tool is missing" >&2; exit 2; }
done
work=$(mktemp -d "${TMPDIR:-/var/tmp}/stress.XXXXXX") mnt=$work/mnt failed=0
mkdir "$mnt"
cleanup() {
    mountpoint -q "$mnt" && umount -l "$mnt"
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

for fs in ${systems//,/ }; do
    "$granary" mkfs --fs "$fs" --size "$size" "$work/img" >/dev/null 2>&1 || exit 2
    "$granary" mount --log "$work/log" "$work/img" "$mnt" 2>"$work/told" &
    server=$!
    for _ in $(seq 200); do mountpoint -q "$mnt" && break; sleep 0.05; done
    mountpoint -q "$mnt" || { cat "$work/told"; exit 2; }
    # Four files of 512 MiB: sequential and random, through the page cache and past it, verified when all is written. Fio
    # counts what it verifies towards io_size, too: half of that is written.
    job=(fio --directory="$mnt" --size=512m --io_size="$((gib * 512))m" --verify=crc32c --verify_backlog=0 --do_verify=1
        --verify_fatal=1 --verify_state_save=0 --group_reporting --output="$work/fio.log" --output-format=normal,json
        --name=seq --rw=write --bs=1m --name=random --rw=randwrite --bs=64k --name=direct --rw=randwrite --bs=128k --direct=1
        --name=synced --rw=randwrite --bs=32k --fsync=64)
    start=$(date +%s)
    "${job[@]}" &
    writer=$!
    most=0
    while kill -0 $writer 2>/dev/null; do
        now=$(awk '/VmRSS/ {print int($2 / 1024)}' /proc/$server/status 2>/dev/null || echo 0)
        [ "${now:-0}" -gt $most ] && most=$now
        sleep 0.5
    done
    wait $writer || { echo "$fs: fio FAILED"; tail -15 "$work/fio.log"; failed=1; }
    "$granary" umount "$mnt" && wait $server || { echo "$fs: unmount FAILED"; failed=1; }
    disk=$(du -sm "$work/img" | cut -f1)
    "$granary" fsck "$work/img" >"$work/fsck" 2>&1 || { echo "$fs: fsck FAILED"; head -20 "$work/fsck"; failed=1; }
    # The bytes of "write", in MiB.
    written=$(sed -n '/"write" :/,/"io_bytes"/s/.*"io_bytes" : \([0-9]*\).*/\1/p' "$work/fio.log" | head -1)
    written=$((${written:-0} >> 20))
    echo "$fs: $((written >> 10)) GiB through $size in $(($(date +%s) - start)) s; server at most $most MiB; image $disk MiB on disk"
    [ $written -ge $((gib * 1024)) ] || { echo "$fs: only $written MiB were written"; failed=1; }
    [ $most -le "$memory" ] || { echo "$fs: more than $memory MiB of memory"; failed=1; }
    rm -rf "$work/img"
done
exit $failed
