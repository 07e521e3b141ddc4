#!/usr/bin/env bash
# Real programs on a mounted file system: runs what this machine has, one line per program: ok, FAILED or skipped.
#
#   scripts/programs.sh [--fs bytefs,ext4] [--image] [--quick] [--keep] [PROGRAM...]     programs: see `all` below
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Each file system is mounted anew for all programs: in memory (ram:FS) and checked by unmounting, or with --image on an
# image of 4 GiB that fsck then looks at. Needs root or fusermount3.
# Exit code 0: nothing failed; 1: something failed; 2: no mount possible.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
granary=${GRANARY:-${CARGO_TARGET_DIR:-$here/target}/release/granary}
all=(git sqlite_delete sqlite_wal tar fio fsx pjdfstest)
systems=bytefs,ext4 quick=0 keep=0 image=0 wanted=()
while [ $# -gt 0 ]; do
    case $1 in
        --fs) systems=$2; shift ;;
        --quick) quick=1 ;;
        --image) image=1 ;;
        --keep) keep=1 ;;
        -h | --help) sed -n '2,10p' "$0"; exit 0 ;;
        *) wanted+=("$1") ;;
    esac
    shift
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${all[@]}")
[ -x "$granary" ] || { echo "programs.sh: $granary is missing: cargo build --release" >&2; exit 2; }
work=$(mktemp -d) mnt=$work/mnt failed=0
mkdir "$mnt"
cleanup() {
    mountpoint -q "$mnt" && { "$granary" umount "$mnt" || umount -l "$mnt"; }
    [ $keep = 1 ] || rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
n() { [ $quick = 1 ] && echo "$2" || echo "$1"; } # full or quick count
have() { command -v "$1" >/dev/null; }

git_() {
    have git || return 77
    git init -q "$work/src" && cd "$work/src" || return
    git config user.email programs@example.org && git config user.name programs
    for i in $(seq 1 "$(n 40 10)"); do
        mkdir -p "d$((i % 7))" && seq 1 $((i * 50)) >"d$((i % 7))/f$i" && git add -A && git commit -qm "commit $i" || return
    done
    cd "$mnt" && git clone -q --no-hardlinks "file://$work/src" clone && cd clone || return
    git fsck --full --strict && git gc -q && git fsck --full && [ -z "$(git status --porcelain)" ] || return
    git checkout -q -b other HEAD~5 && echo more >>d1/f1 && git commit -qam more && git merge -q --no-edit master 2>/dev/null ||
        git merge -q --no-edit main || return
    diff -r --exclude=.git "$work/src/d2" d2
}

sqlite() { # journal mode: 10,000 transactions, each committed by itself
    have sqlite3 || return 77
    cd "$mnt" || return
    local db=$1.db count
    count=$(n 10000 500)
    {
        echo "PRAGMA journal_mode=$1; PRAGMA synchronous=FULL; CREATE TABLE t(id INTEGER PRIMARY KEY, x TEXT);"
        seq 1 "$count" | awk '{print "BEGIN; INSERT INTO t VALUES(" $1 ",hex(randomblob(100))); COMMIT;"}'
    } | sqlite3 "$db" >/dev/null || return
    [ "$(sqlite3 "$db" 'PRAGMA integrity_check')" = ok ] && [ "$(sqlite3 "$db" 'SELECT count(*) FROM t')" = "$count" ]
}
sqlite_delete() { sqlite delete; }
sqlite_wal() { sqlite wal; }

tar_() { # a tree of 20,000 files in and out, compared
    local dirs
    dirs=$(n 200 20)
    mkdir "$work/tree" && cd "$work/tree" || return
    for d in $(seq 1 "$dirs"); do
        mkdir "d$d" && (cd "d$d" && for f in $(seq 1 100); do echo "$d $f" >"f$f"; done)
    done
    head -c 3000000 /dev/urandom >big && ln -s d1/f1 link && ln d1/f2 hard && mkfifo fifo
    tar cf "$work/in.tar" . && mkdir "$mnt/tree" && tar xpf "$work/in.tar" -C "$mnt/tree" || return
    diff -r --no-dereference "$work/tree" "$mnt/tree" -x fifo || return
    tar cf "$work/out.tar" -C "$mnt/tree" . && mkdir "$work/back" && tar xpf "$work/out.tar" -C "$work/back" || return
    diff -r --no-dereference "$work/tree" "$work/back" -x fifo || return
    (cd "$work/tree" && find . -printf '%p %m %u %g %T@ %l\n' | sort) >"$work/list1"
    (cd "$mnt/tree" && find . -printf '%p %m %u %g %T@ %l\n' | sort) >"$work/list2"
    # tar keeps whole seconds
    diff <(sed -E "s/([0-9]{10})\.[0-9]+/\1/" "$work/list1") <(sed -E "s/([0-9]{10})\.[0-9]+/\1/" "$work/list2") && rm -rf "$mnt/tree"
}

fio_() {
    have fio || return 77
    cd "$mnt" || return
    local size
    size=$(n 128m 16m)
    for engine in psync "libaio --direct=1 --iodepth=16"; do
        # shellcheck disable=SC2086
        fio --name=v --filename=fio.dat --size="$size" --rw=randwrite --bsrange=512-64k --blockalign=512 --fsync=64 \
            --ioengine=$engine --verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 --output="$work/fio.log" || return
        rm -f fio.dat
    done
    fio --name=m --directory="$mnt" --size="$size" --rw=randwrite --bs=4k --ioengine=mmap --verify=crc32c --do_verify=1 \
        --verify_fatal=1 --output="$work/fio.log"
}

fsx_() { # 1,000,000 operations
    have fsx || return 77
    cd "$mnt" || return
    # In fifty runs: fsx 0.3.2 never unmaps what it maps, and the kernel walks all mappings of a file when it is truncated.
    for seed in $(seq "$(n 50 1)"); do
        fsx -N 20000 -S "$seed" fsx.dat >"$work/fsx.log" 2>&1 || { echo "seed $seed"; tail -20 "$work/fsx.log"; return 1; }
    done
}

pjdfstest_() {
    have pjdfstest || return 77
    cd "$mnt" || return
    cat >"$work/pjd.toml" <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
[dummy_auth]
entries = [ ["nobody", "nogroup"], ["daemon", "daemon"], ["bin", "bin"] ]
TOML
    pjdfstest -c "$work/pjd.toml" -p "$mnt" >"$work/pjd.log" 2>&1 && return
    grep -vE ' ok$|skipped' "$work/pjd.log" | tail -40
    return 1
}

for fs in ${systems//,/ }; do
    if [ $image = 1 ]; then
        "$granary" mkfs --fs "$fs" --size 4GiB "$work/$fs.img" >/dev/null 2>&1 || exit 2
        "$granary" mount --daemon --allow-other --log "$work/$fs.log" "$work/$fs.img" "$mnt" || exit 2
    else
        "$granary" mount --daemon --allow-other --size 2GiB --log "$work/$fs.log" "ram:$fs" "$mnt" || exit 2
    fi
    chmod 755 "$work" "$mnt"
    for p in "${wanted[@]}"; do
        name=$p; declare -F "$p" >/dev/null || name=${p}_
        start=$(date +%s.%N)
        (set +e; "$name") >"$work/$fs.$p.out" 2>&1
        rc=$?
        took=$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f s", $1-$2}')
        case $rc in
            0) echo "$fs $p: ok ($took)" ;;
            77) echo "$fs $p: skipped (not installed)" ;;
            *) echo "$fs $p: FAILED ($took)"; tail -15 "$work/$fs.$p.out" | sed 's/^/    /'; failed=1 ;;
        esac
        (cd "$mnt" && rm -rf ./* .[!.]*) 2>/dev/null
        rm -rf "$work/src" "$work/tree" "$work/back" "$work"/*.tar
    done
    "$granary" umount "$mnt" || { echo "$fs unmount: FAILED"; cat "$work/$fs.log"; failed=1; }
    if [ $image = 1 ]; then
        "$granary" fsck "$work/$fs.img" >"$work/fsck.out" 2>&1 && echo "$fs fsck: ok" ||
            { echo "$fs fsck: FAILED"; tail -15 "$work/fsck.out"; failed=1; }
        rm -rf "$work/$fs.img"
    fi
    [ ! -s "$work/$fs.log" ] || { echo "$fs log:"; cat "$work/$fs.log"; failed=1; }
done
exit $failed
