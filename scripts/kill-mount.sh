#!/usr/bin/env bash
# kill -9 of a mount at random moments, under an SQLite commit loop and under mail-like file creation with fsync. After each
# kill: mount (recovery), integrity check, every acknowledged commit and every fsynced file is there; at the end, and every
# tenth time, fsck.
#
#   scripts/kill-mount.sh [--fs bytefs,ext4] [--kills 200] [--seed 1] [--durability process|machine] [--testbed NAME]
#   --fs variants: PebbleSSD's six, on its testbed. Their cleaners never rest, on images of 256 MiB.
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# Exit code 0: nothing was lost; 1: something was; 2: no mount possible. Needs root, sqlite3, python3.
. "$(dirname "$0")/common.sh"
systems=bytefs,ext4 kills=200 seed=1 durability=process testbed=bytefs-emulator
while [ $# -gt 0 ]; do
    case $1 in
        --fs) systems=$2; shift ;;
        --kills) kills=$2; shift ;;
        --seed) seed=$2; shift ;;
        --durability) durability=$2; shift ;;
        --testbed) testbed=$2; shift ;;
        *) usage 2 10 ;;
    esac
    shift
done
if [ "$systems" = variants ]; then
    systems=nilfs2-remap,nilfs2-fswrite,nilfs2-pebble,f2fs-remap,f2fs-fswrite,f2fs-pebble testbed=pebblessd
fi
needs "$granary" sqlite3 python3
mount_point
RANDOM=$seed

# Write until the mount dies; each line of their output is a promise that was acknowledged.
sqlite_writer
cat >"$work/mail.py" <<'PY'
import os, sys, hashlib
d = sys.argv[1] + "/mail"; os.makedirs(d, exist_ok=True)
n = int(sys.argv[2])
while True:
    data = hashlib.sha256(str(n).encode()).digest() * (n % 500 + 1)
    f = os.open(f"{d}/{n}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    os.write(f, data[: len(data) // 2]); os.fsync(f); os.write(f, data[len(data) // 2 :]); os.fsync(f); os.close(f)
    if n >= 300: os.unlink(f"{d}/{n - 300}")
    print(n, flush=True); n += 1
PY
cat >"$work/verify.py" <<'PY'
import os, sys, hashlib
d, last = sys.argv[1] + "/mail", int(sys.argv[2])
for n in range(max(0, last - 299), last + 1):
    want = hashlib.sha256(str(n).encode()).digest() * (n % 500 + 1)
    path = f"{d}/{n}"
    # The next mail's turn may have removed the oldest one before the kill.
    if not os.path.exists(path) and n <= last - 299: continue
    if open(path, "rb").read() != want: sys.exit(f"mail {n} of {last} is not what was fsynced")
PY

lost() { echo "$fs, kill $k: $*"; exit 1; }
serve() { # mounts in the foreground, so that $server is the process to be killed
    "$granary" mount --durability "$durability" --log "$work/log" "$work/img" "$mnt" 2>>"$work/mount.err" >&2 &
    server=$!
    for _ in $(seq 200); do mountpoint -q "$mnt" && return; sleep 0.02; done
    cat "$work/mount.err"; exit 2
}

# Of the file system, as words of `mkfs`.
settings() {
    case $1 in
        nilfs2-*|f2fs-*)
            echo "--size 256MiB"
            sed -n "s/^${1%%-*}\\./--set &/p" "$here/scripts/restless.settings" ;;
        *) echo "--size 1GiB" ;;
    esac
}

for fs in ${systems//,/ }; do
    rm -rf "$work/img"
    # shellcheck disable=SC2046 # words
    "$granary" mkfs --fs "$fs" --testbed "$testbed" $(settings "$fs") "$work/img" >/dev/null || exit 2
    mails=-1 k=0
    declare -A rows=([delete]=0 [wal]=0)
    while [ $k -lt "$kills" ]; do
        k=$((k + 1))
        kind=$(( k % 3 ))
        mode=$([ $kind = 0 ] && echo delete || echo wal)
        serve
        if [ $kind = 2 ]; then
            python3 "$work/mail.py" "$mnt" $((mails + 1)) >"$work/acks" 2>/dev/null &
        else
            mkdir -p "$mnt/$mode"
            python3 "$work/sqlite.py" "$mnt/$mode" $mode >"$work/acks" 2>/dev/null &
        fi
        writer=$!
        # A kill before the first promise tests nothing; one in four comes at any time all the same.
        [ $((RANDOM % 4)) = 0 ] || for _ in $(seq 1000); do [ -s "$work/acks" ] && break; sleep 0.02; done
        sleep "$(awk "BEGIN{print 0.15 + $RANDOM / 32768 * 0.35}")"
        kill -9 $server
        wait $server 2>/dev/null
        umount -l "$mnt" 2>/dev/null
        wait $writer 2>/dev/null
        last=$(tail -n 1 "$work/acks")
        serve
        if [ $kind = 2 ]; then
            mails=${last:-$mails}
            [ "$mails" -lt 0 ] || python3 "$work/verify.py" "$mnt" "$mails" || lost "a mail"
        else
            rows[$mode]=${last:-${rows[$mode]}}
            if [ "${rows[$mode]}" -gt 0 ]; then
                [ "$(sqlite3 "$mnt/$mode/db" 'PRAGMA integrity_check')" = ok ] || lost "integrity of $mode/db"
                n=$(sqlite3 "$mnt/$mode/db" 'SELECT count(*) FROM t')
                [ "$n" -ge "${rows[$mode]}" ] || lost "$n rows of ${rows[$mode]} that were committed"
            fi
        fi
        "$granary" umount "$mnt" && wait $server 2>/dev/null
        if [ $((k % 10)) = 0 ] || [ $k = "$kills" ]; then
            "$granary" fsck "$work/img" >"$work/fsck" 2>&1 || { cat "$work/fsck"; lost "fsck"; }
        fi
    done
    if [ "$kills" -ge 8 ] && [ $((mails + 1 + rows[delete] + rows[wal])) = 0 ]; then
        echo "$fs: $kills kills, and nothing had been promised before any of them: is the machine too busy?"
        exit 2
    fi
    echo "$fs: $kills kills, ${rows[delete]} and ${rows[wal]} commits (rollback, WAL), $((mails + 1)) mails: nothing lost"
done
