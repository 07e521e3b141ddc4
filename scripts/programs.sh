#!/usr/bin/env bash
# Real programs on a mounted file system: runs what this machine has, one line per program: ok, FAILED or skipped.
#
#   scripts/programs.sh [--fs bytefs,ext4,f2fs] [--testbed NAME] [--image] [--direct] [--quick] [--keep] [PROGRAM...]
#   PROGRAM: see `all` below; --testbed: with a drive that the file systems need
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Each file system is mounted anew for all programs: in memory (ram:FS) and checked by unmounting, or with --image on an
# image of 4 GiB that fsck then looks at; there the mount and the PostgreSQL server are killed in the middle of pgbench too.
# With --direct the programs run with direct access (`granary exec`), the shell that checks what they did through FUSE.
# Needs root or fusermount3; programs: Debian's git sqlite3 postgresql postgresql-contrib rocksdb-tools rsync fio, and the
# crates fsx and pjdfstest.
# Exit code 0: nothing failed; 1: something failed; 2: no mount possible.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
granary=${GRANARY:-${CARGO_TARGET_DIR:-$here/target}/release/granary}
all=(git cargo sqlite_delete sqlite_wal postgres rocksdb tar rsync fio make python together fsx pjdfstest)
systems=bytefs,ext4,f2fs testbed=bytefs-emulator quick=0 keep=0 image=0 direct=0 wanted=()
while [ $# -gt 0 ]; do
    case $1 in
        --fs) systems=$2; shift ;;
        --testbed) testbed=$2; shift ;;
        --quick) quick=1 ;;
        --image) image=1 ;;
        --direct) direct=1 ;;
        --keep) keep=1 ;;
        -h | --help) sed -n '2,13p' "$0"; exit 0 ;;
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

# Mounts in the background; a shell that runs a program may do so again after a kill.
serve() {
    local how=()
    [ $direct = 0 ] || how=(--direct)
    if [ $image = 1 ]; then
        "$granary" mount "${how[@]}" --daemon --allow-other --log "$work/$fs.log" "$work/$fs.img" "$mnt"
    else
        "$granary" mount "${how[@]}" --daemon --allow-other --testbed "$testbed" --size 2GiB --log "$work/$fs.log" "ram:$fs" "$mnt"
    fi
}

# Has the programs of this shell go the direct way.
go_direct() {
    local one
    while read -r one; do export "${one?}"; done < <("$granary" exec "$mnt" -- env | grep -E '^(LD_PRELOAD|GRANARY_DIRECT_[A-Z]*)=')
}

cargo_() { # a small package of two crates and a test, built and run; then built again after a change
    have cargo || return 77
    mkdir -p "$mnt/src/a/src" "$mnt/src/b/src" && cd "$mnt/src" || return
    printf '[workspace]\nmembers = ["a", "b"]\nresolver = "2"\n' >Cargo.toml
    printf '[package]\nname = "a"\nversion = "0.1.0"\nedition = "2021"\n' >a/Cargo.toml
    printf '[package]\nname = "b"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\na = { path = "../a" }\n' >b/Cargo.toml
    printf 'pub fn twice(n: u32) -> u32 { 2 * n }\n#[test]\nfn doubles() { assert_eq!(twice(21), 42); }\n' >a/src/lib.rs
    printf 'fn main() { println!("{}", a::twice(21)); }\n' >b/src/main.rs
    export CARGO_TARGET_DIR=$mnt/src/target CARGO_HOME=$work/cargo
    cargo build --offline && cargo test --offline && [ "$(target/debug/b)" = 42 ] || return
    sed -i 's/21)); }/50)); }/' b/src/main.rs && cargo build --offline && [ "$(target/debug/b)" = 100 ]
}

rocksdb_() { # db_bench with a synced log, then everything is read back with checksums
    have db_bench || return 77
    local count
    count=$(n 200000 20000)
    db_bench --db="$mnt/rocks" --stats_interval=1000000000 --num="$count" --threads=2 --sync=1 --write_buffer_size=4194304 --verify_checksum=1 \
        --compression_type=none --benchmarks=fillrandom,overwrite,readrandom,readseq,compact,verifychecksum --writes="$((count / 10))" &&
        db_bench --db="$mnt/rocks" --stats_interval=1000000000 --use_existing_db=1 --num="$count" --compression_type=none --use_direct_reads=1 \
            --use_direct_io_for_flush_and_compaction=1 --benchmarks=overwrite,readrandom,compact,verifychecksum &&
        { ! have ldb || ldb --db="$mnt/rocks" checkconsistency; }
}

pg() { (cd / && runuser -u postgres -- "$bin/$@"); }
pg_start() {
    pg pg_ctl -s -w -t 120 -D "$mnt/pg" -l "$work/pg/log" -o "-k $work/pg -c listen_addresses='' -c fsync=on -c port=54329" start
}
sql() { pg psql -h "$work/pg" -p 54329 -X -A -t -q -v ON_ERROR_STOP=1 "$@"; }
pg_sound() { # every transaction of pgbench moves one sum through four tables
    local counted
    counted=$(sql -c 'SELECT count(DISTINCT s), max(n) FROM (SELECT sum(abalance) s, 0 n FROM pgbench_accounts UNION ALL
        SELECT sum(tbalance), 0 FROM pgbench_tellers UNION ALL SELECT sum(bbalance), 0 FROM pgbench_branches UNION ALL
        SELECT coalesce(sum(delta), 0), count(*) FROM pgbench_history) x' postgres) || return
    echo "sums and transactions: $counted (at least $1)"
    [ "${counted%|*}" = 1 ] && [ "${counted#*|}" -ge "$1" ] && sql -c 'CREATE EXTENSION IF NOT EXISTS amcheck' \
        -c "SELECT bt_index_check('pgbench_accounts_pkey', true)" postgres
}
postgres() { # pgbench with fsync=on; with --image also kill -9 of mount and server, three times
    bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -1)
    [ -x "$bin/initdb" ] && id postgres && have runuser || return 77
    mkdir "$work/pg" "$mnt/pg" && chown postgres "$work/pg" "$mnt/pg" && chmod 700 "$mnt/pg" || return
    pg initdb -D "$mnt/pg" --data-checksums && pg_start || return
    trap 'pg pg_ctl -s -m immediate -D "$mnt/pg" stop' EXIT
    pg pgbench -h "$work/pg" -p 54329 -i -q -s "$(n 5 1)" postgres || return
    pg pgbench -n -h "$work/pg" -p 54329 -c 4 -j 2 -t "$(n 2500 250)" postgres && pg_sound "$(n 10000 1000)" || return
    if [ $image = 1 ]; then
        local kill acked server
        for kill in 1 2 3; do
            (cd "$work/pg" && exec runuser -u postgres -- "$bin/pgbench" -n -h "$work/pg" -p 54329 -c 4 -T 60 -l \
                --log-prefix "acked.$kill" postgres) >"$work/pg/bench.$kill" 2>&1 &
            server=$(head -1 "$mnt/pg/postmaster.pid")
            sleep "$kill.5"
            pkill -9 -f "^$granary mount .* $work/$fs.img $mnt"
            pkill -9 -P "$server"
            kill -9 "$server"
            wait %%
            umount -l "$mnt" 2>/dev/null
            acked=$(cat "$work/pg"/acked.* | wc -l)
            for _ in $(seq 100); do
                pgrep -P "$server" >/dev/null || pgrep -f "^$granary mount .* $work/$fs.img $mnt" >/dev/null || break
                sleep 0.1
            done
            serve || return
            rm -f "$work/pg"/.s.PGSQL.* "$mnt/pg/postmaster.pid"
            pg_start && pg_sound "$((acked + $(n 10000 1000)))" || { tail -20 "$work/pg/log"; return 1; }
        done
    fi
    pg pg_ctl -s -m fast -w -D "$mnt/pg" stop && trap - EXIT && pg pg_checksums -D "$mnt/pg" && rm -rf "$work/pg"
}

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

rsync_() { # a tree with links, modes and a sparse file, in; changed; in again; and out
    have rsync || return 77
    mkdir -p "$work/tree" && cd "$work/tree" || return
    for d in $(seq 1 "$(n 20 4)"); do
        mkdir "d$d" && (cd "d$d" && for f in $(seq 1 50); do seq "$f" $((f * d)) >"f$f"; done)
    done
    ln -s d1/f1 link && ln d1/f2 hard && chmod 640 d2/f3 && truncate -s 50M sparse && echo end >>sparse || return
    rsync -aHS "$work/tree/" "$mnt/tree/" && [ -z "$(rsync -aHcni --delete "$work/tree/" "$mnt/tree/")" ] || return
    echo more >>d1/f1 && rm d2/f4 && mv d3/f5 d3/renamed && head -c 100000 /dev/urandom >>d1/f50 || return
    rsync -aHS --delete --inplace --no-whole-file "$work/tree/" "$mnt/tree/" || return
    mkdir "$work/back" && rsync -aHS "$mnt/tree/" "$work/back/" && diff -r --no-dereference "$work/tree" "$work/back"
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

make_() { # a small project in C, four jobs at once, their output in one file
    { have make && have gcc; } || return 77
    mkdir "$mnt/make" && cd "$mnt/make" || return
    for i in $(seq 30); do echo "int f$i(void) { return $i; }" >"f$i.c"; done
    echo 'int f30(void); int main(void) { return f30() - 30; }' >main.c
    printf 'OBJ := $(patsubst %%.c,%%.o,$(wildcard *.c))\nprog: $(OBJ)\n\tgcc -o $@ $(OBJ)\n%%.o: %%.c\n\tgcc -c $< -o $@\n' >Makefile
    make -j4 >log 2>&1 && ./prog && [ "$(grep -c -- -c log)" = 31 ] && make -q
}

python_() { # buffers, mappings, positions, archives, children that inherit, sendfile
    have python3 || return 77
    mkdir "$mnt/python" && cd "$mnt/python" || return
    python3 - <<'PY'
import mmap, os, shutil, subprocess, tempfile, zipfile
with open("a", "w") as f:
    for i in range(10000): f.write(f"{i}\n")
assert sum(map(int, open("a"))) == 49995000
with open("m", "w+b") as f:
    f.write(bytes(8192)); f.flush()
    m = mmap.mmap(f.fileno(), 8192)
    m[5000] = 7; assert os.pread(f.fileno(), 1, 5000) == b"\7"
    os.pwrite(f.fileno(), b"\t", 1); assert m[1] == 9
shutil.copy("a", "b"); assert open("a").read() == open("b").read()
with zipfile.ZipFile("z", "w") as z: z.write("a")
assert zipfile.ZipFile("z").testzip() is None
assert subprocess.run(["wc", "-l", "a"], capture_output=True, text=True).stdout.split()[0] == "10000"
with tempfile.TemporaryFile(dir=".") as t: t.write(b"x" * 10); t.seek(0); assert t.read() == b"x" * 10
with open("a") as source, open("c", "w") as target:
    target.write("first\n"); target.flush()
    assert subprocess.Popen(["cat"], stdin=source, stdout=target).wait() == 0
    target.write("last\n")
assert open("c").read() == "first\n" + open("a").read() + "last\n"
with open("s", "wb") as target, open("a", "rb") as source: os.sendfile(target.fileno(), source.fileno(), 0, 1000)
assert open("s").read() == open("a").read()[:1000]
PY
}

together() { # two programs that commit to one database: with --direct one of them goes through FUSE
    have sqlite3 || return 77
    cd "$mnt" || return
    local mode each
    each=$(n 300 40)
    commits() { seq "$each" | sed 's/.*/PRAGMA busy_timeout=60000; INSERT INTO t VALUES(&);/' | "$@" >/dev/null; }
    for mode in wal delete; do
        sqlite3 "$mode.db" "PRAGMA journal_mode=$mode; CREATE TABLE t(x)" >/dev/null || return
        commits sqlite3 "$mode.db" &
        commits env -u LD_PRELOAD sqlite3 "$mode.db" || return
        wait $! || return
        [ "$(sqlite3 "$mode.db" 'SELECT count(*) FROM t; PRAGMA integrity_check' | tr '\n' ' ')" = "$((2 * each)) ok " ] || return
    done
}

fsx_() { # 1,000,000 operations
    have fsx || return 77
    cd "$mnt" || return
    # NOVA, PMFS, DevFS and NILFS2, like their originals, reserve space and punch no holes.
    local punch=1
    case $fs in nova | pmfs | devfs* | nilfs2*) punch=0 ;; esac
    printf '[weights]\npunch_hole = %s\nposix_fallocate = 0\n' "$punch" >"$work/fsx.toml"
    # No posix_fallocate: fsx 0.3.2 takes EINVAL for an empty range, as POSIX demands, for a file system without it.
    # In many runs: it never unmaps what it maps, and the kernel walks all mappings of a file when it is truncated.
    for seed in $(seq "$(n 200 4)"); do
        fsx -f "$work/fsx.toml" -N 5000 -S "$seed" fsx.dat >"$work/fsx.log" 2>&1 || { echo "seed $seed"; tail -20 "$work/fsx.log"; return 1; }
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
        "$granary" mkfs --fs "$fs" --testbed "$testbed" --size 4GiB "$work/$fs.img" >/dev/null || exit 2
    fi
    serve || exit 2
    chmod 755 "$work" "$mnt"
    for p in "${wanted[@]}"; do
        name=$p; declare -F "$p" >/dev/null || name=${p}_
        start=$(date +%s.%N)
        (set +e; [ $direct = 0 ] || go_direct; "$name") >"$work/$fs.$p.out" 2>&1
        rc=$?
        took=$(echo "$(date +%s.%N) $start" | awk '{printf "%.1f s", $1-$2}')
        case $rc in
            0) echo "$fs $p: ok ($took)" ;;
            77) echo "$fs $p: skipped (not installed)" ;;
            *) echo "$fs $p: FAILED ($took)"; tail -15 "$work/$fs.$p.out" | sed 's/^/    /'; failed=1 ;;
        esac
        (cd "$mnt" && rm -rf ./* .[!.]*) 2>/dev/null
        rm -rf "$work/src" "$work/tree" "$work/back" "$work/cargo" "$work/pg" "$work"/*.tar
    done
    [ $direct = 0 ] || "$granary" stat --json "$mnt" | python3 -c 'import json, sys
print("commands:", ", ".join(f"{k} {v}" for k, v in json.load(sys.stdin)["direct"]["ops"].items()))'
    "$granary" umount "$mnt" || { echo "$fs unmount: FAILED"; cat "$work/$fs.log"; failed=1; }
    if [ $image = 1 ]; then
        "$granary" fsck "$work/$fs.img" >"$work/fsck.out" 2>&1 && echo "$fs fsck: ok" ||
            { echo "$fs fsck: FAILED"; tail -15 "$work/fsck.out"; failed=1; }
        rm -rf "$work/$fs.img"
    fi
    [ ! -s "$work/$fs.log" ] || { echo "$fs log:"; cat "$work/$fs.log"; failed=1; }
done
exit $failed
