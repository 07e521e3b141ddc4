#!/usr/bin/env bash
# Programs on a directory of a file system of the kernel's (ext4, xfs, btrfs) with persistent memory in front of it (granary mount
# --stack): SQLite, PostgreSQL and git; then kill -9 at random moments under an SQLite commit loop, each time with a mount, an integrity
# check and a look for every acknowledged commit; in the end fsck and cp-out without a mount, and an unmount with --demote-all, after which
# the directory alone must be what the mount showed.
#
#   scripts/stack-programs.sh [--below ext4|xfs|btrfs] [--kills 100] [--seed 1] [--size 256MiB] [--durability process|machine]
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Exit code 0: nothing was lost; 1: something was; 2: no mount possible. Needs root, loop devices, mkfs of --below, sqlite3, python3, git.
# PostgreSQL, found by PATH or where Debian has it, is left out, and said so, where there is none.
. "$(dirname "$0")/common.sh"
below=ext4 kills=100 seed=1 size=256MiB durability=process
while [ $# -gt 0 ]; do
    case $1 in
        --below) below=$2; shift ;;
        --kills) kills=$2; shift ;;
        --seed) seed=$2; shift ;;
        --size) size=$2; shift ;;
        --durability) durability=$2; shift ;;
        *) usage 2 11 ;;
    esac
    shift
done
case $below in
    ext4) force=-F ;;
    xfs | btrfs) force=-f ;;
    *) usage 2 11 ;;
esac
needs "$granary" "mkfs.$below" losetup sqlite3 python3 git
scratch
loop= server= wrong=0
disk=$work/disk host=$work/host mnt=$work/mnt image=$work/pm
mkdir "$host" "$mnt"
chmod 755 "$work"
cleanup() {
    [ -n "$server" ] && kill -9 "$server"
    umount -l "$mnt"; umount "$host"
    [ -n "$loop" ] && losetup -d "$loop"
}
RANDOM=$seed
say() { printf '%s\n' "$*"; }
bad() { say "WRONG: $*"; wrong=$((wrong + 1)); }

truncate -s 2G "$disk" && "mkfs.$below" -q $force "$disk" >/dev/null && loop=$(losetup -f --show "$disk") &&
    mount -t "$below" "$loop" "$host" || exit 2
mkdir "$host/dir"

# Mounts; what is not yet there is made. The server's number is in $server.
mount_stack() {
    local made=()
    [ -e "$image" ] || made=(--size "$size")
    "$granary" mount --stack "$host/dir" "${made[@]}" --durability "$durability" --allow-other "$@" "$image" "$mnt" \
        >"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 300); do
        mountpoint -q "$mnt" && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    cat "$work/log" >&2
    return 1
}
unmount_stack() {
    "$granary" umount "$mnt" >/dev/null 2>&1 || umount "$mnt"
    wait "$server"; local code=$?
    server=
    return $code
}

mount_stack || exit 2
say "below: $below"

# SQLite: many small transactions, then a check.
sqlite3 "$mnt/sqlite.db" 'CREATE TABLE t(id INTEGER PRIMARY KEY, x BLOB)' || bad "sqlite does not begin"
for i in $(seq 200); do echo "INSERT INTO t VALUES($i, randomblob($((i * 37 % 3000))));"; done | sqlite3 "$mnt/sqlite.db" || bad "sqlite"
[ "$(sqlite3 "$mnt/sqlite.db" 'PRAGMA integrity_check; SELECT count(*) FROM t' | tr '\n' ' ')" = "ok 200 " ] || bad "sqlite's check"
say "sqlite: 200 transactions"

# git: a repository with some hundred commits.
git init -q "$mnt/git" && (
    cd "$mnt/git" || exit 1
    git config user.name n && git config user.email n@n && git config core.fsync all
    for i in $(seq 40); do
        seq "$i" $((i * 50)) >"file$((i % 7))" && git add -A && git commit -q -m "commit $i" || exit 1
    done
    git gc -q && git fsck --strict
) >"$work/git" 2>&1 || { cat "$work/git"; bad "git"; }
say "git: $(git -C "$mnt/git" rev-list --count HEAD) commits"

# PostgreSQL: a database on the mount, as its own user.
user=$(id -un postgres 2>/dev/null || id -un nobody)
postgres=$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | tail -n 1)
binaries=$(dirname "$(readlink -f "${postgres:-/none/none}")")
if [ -x "$binaries/initdb" ] && command -v runuser >/dev/null; then
    mkdir "$mnt/pg" && chown "$user" "$mnt/pg" && chmod 700 "$mnt/pg"
    pg() { runuser -u "$user" -- "$@"; }
    if pg "$binaries/initdb" -D "$mnt/pg" -A trust -U postgres >"$work/pglog" 2>&1 &&
        pg "$binaries/pg_ctl" -D "$mnt/pg" -w -o "-k /tmp -c listen_addresses=''" -l "/tmp/stack-pg-$$.log" start >>"$work/pglog" 2>&1
    then
        { echo 'CREATE TABLE t(id int PRIMARY KEY, x text);'
          for i in $(seq 300); do echo "INSERT INTO t VALUES($i, repeat('x', $((i % 500))));"; done
        } | pg "$binaries/psql" -q -h /tmp -U postgres postgres || bad "postgres's statements"
        pg "$binaries/pg_ctl" -D "$mnt/pg" -w -m immediate stop >>"$work/pglog" 2>&1
        pg "$binaries/pg_ctl" -D "$mnt/pg" -w -o "-k /tmp -c listen_addresses=''" -l "/tmp/stack-pg-$$.log" start >>"$work/pglog" 2>&1
        rows=$(pg "$binaries/psql" -q -t -A -h /tmp -U postgres postgres -c 'SELECT count(*) FROM t')
        [ "$rows" = 300 ] || bad "postgres has $rows rows after its recovery"
        pg "$binaries/pg_ctl" -D "$mnt/pg" -w stop >>"$work/pglog" 2>&1
        say "postgres: $rows rows after an immediate stop"
    else
        cat "$work/pglog"; bad "postgres does not begin"
    fi
    rm -f "/tmp/stack-pg-$$.log"
else
    say "postgres: left out, it is not installed here"
fi

# Kills: each line of the writer's output is a commit that was acknowledged.
cat >"$work/writer.py" <<'PY'
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/kill.db", isolation_level=None)
# EXTRA: a commit is the removal of the journal, and only then its directory is synced.
db.execute("PRAGMA journal_mode=DELETE"); db.execute("PRAGMA synchronous=EXTRA")
db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, x BLOB)")
n = (db.execute("SELECT max(id) FROM t").fetchone()[0] or 0) + 1
while True:
    db.execute("BEGIN"); db.execute("INSERT INTO t VALUES(?, randomblob(200))", (n,)); db.execute("COMMIT")
    os.statvfs(sys.argv[1])
    print(n, flush=True); n += 1
PY
acknowledged=0
for kill in $(seq "$kills"); do
    python3 "$work/writer.py" "$mnt" >"$work/acks" 2>/dev/null &
    writer=$!
    # Some time after its first commit of this turn.
    for _ in $(seq 100); do [ -s "$work/acks" ] && break; sleep 0.1; done
    sleep "0.$((RANDOM % 900 + 100))"
    kill -9 "$server"; wait "$server" 2>/dev/null
    umount -l "$mnt" 2>/dev/null
    kill -9 "$writer" 2>/dev/null; wait "$writer" 2>/dev/null
    last=$(tail -n 1 "$work/acks"); [ -n "$last" ] && acknowledged=$last
    mount_stack || { bad "no mount after kill $kill"; break; }
    [ -e "$mnt/kill.db" ] || continue
    found=$(sqlite3 "$mnt/kill.db" 'PRAGMA integrity_check; SELECT count(*), coalesce(max(id), 0) FROM t' 2>&1 | tr '\n' ' ')
    count=${found#ok } max=${count#*|} count=${count%|*} max=${max% }
    case $found in ok\ *) ;; *) [ "$acknowledged" = 0 ] || bad "kill $kill: $found" ;; esac
    [ "${max:-0}" -ge "$acknowledged" ] 2>/dev/null && [ "$count" = "$max" ] || [ "$acknowledged" = 0 ] ||
        bad "kill $kill: $count rows up to $max, acknowledged $acknowledged"
done
[ "$acknowledged" -gt 0 ] || bad "no commit was acknowledged"
say "kills: $kills, $acknowledged commits acknowledged"

# What the mount shows, then the same without a mount, then an unmount that demotes, then the directory alone.
rm -rf "$work/copy" && cp -a "$mnt" "$work/copy" || bad "no copy"
unmount_stack || bad "unmount"
"$granary" fsck --stack "$host/dir" "$image" >"$work/fsck" 2>&1 || { cat "$work/fsck"; bad "fsck"; }
mkdir "$work/looked" && "$granary" cp-out --stack "$host/dir" "$image" / "$work/looked" || bad "cp-out"
diff -r "$work/copy" "$work/looked" >"$work/diff" 2>&1 || { head -20 "$work/diff"; bad "what cp-out finds without a mount is not what the mount showed"; }
mount_stack --demote-all || bad "no mount that demotes"
unmount_stack || bad "unmount that demotes"
diff -r "$work/copy" "$host/dir" >"$work/diff" 2>&1 || { head -20 "$work/diff"; bad "the directory is not what the mount showed"; }
files=$(find "$host/dir" -type f | wc -l)
say "demoted: $files files of the directory compared with the copy"
[ "$(sqlite3 "$host/dir/sqlite.db" 'PRAGMA integrity_check')" = ok ] || bad "sqlite's file in the directory"
git -C "$host/dir/git" fsck --strict >/dev/null 2>&1 || bad "git's repository in the directory"
[ "$wrong" = 0 ] && say "nothing was lost" || { say "$wrong wrong"; exit 1; }
