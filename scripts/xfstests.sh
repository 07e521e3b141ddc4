#!/usr/bin/env bash
# xfstests on mounts: its tests of the group `quick`, or those that are named. Two images are made, of the file system named; a helper of
# mount(8), /sbin/mount.fuse.granary, mounts them; ./check -fuse runs the tests. Afterwards helper, images and users are gone again.
#
#   scripts/xfstests.sh --xfstests CHECKOUT [--fs bytefs] [--testbed NAME] [--group quick] [--skip TEST,...] [--bound 120] [--size 4GiB]
#                       [--repeat 1] [--results DIR] [TEST...]     TEST: generic/013, say; then no group is run
#   CHECKOUT: a built tree of xfstests, with its ./check; --bound: seconds after which a test is killed, and has failed
#   --results: what ./check leaves, generic/NNN.out.bad among it, stays there (default: it goes)
#   GRANARY=path of the binary (default: target/release/granary under CARGO_TARGET_DIR or the repository)
#
# A test that ./check does not run says why: most need a block device, a quota or a call that FUSE does not have.
# Exit code 0: all that ran passed; 1: some failed, or fsck found something; 2: nothing could be run. Needs root, /dev/fuse, xfs_io, attr,
# setfacl, bc, perl, the users fsgqa, fsgqa2 and 123456-fsgqa (those that are missing are made for the run).
. "$(dirname "$0")/common.sh"
fs=bytefs testbed="" group=quick skip="" bound=120 size=4GiB repeat=1 results="" checkout="" tests=()
while [ $# -gt 0 ]; do
    case $1 in
        --xfstests) checkout=$2; shift ;;
        --fs) fs=$2; shift ;;
        --testbed) testbed=$2; shift ;;
        --group) group=$2; shift ;;
        --skip) skip=$2; shift ;;
        --bound) bound=$2; shift ;;
        --repeat) repeat=$2; shift ;;
        --size) size=$2; shift ;;
        --results) results=$2; shift ;;
        -*) usage 2 13 ;;
        *) tests+=("$1") ;;
    esac
    shift
done
[ -n "$checkout" ] || usage 2 13
cannot() { echo "${0##*/}: $*" >&2; exit 2; }
needs "$granary" xfs_io setfattr setfacl bc perl mount findmnt fuser useradd
[ "$(id -u)" = 0 ] || cannot "needs root"
[ -c /dev/fuse ] || cannot "/dev/fuse is missing"
granary=$(realpath "$(command -v "$granary")")
checkout=$(realpath "$checkout") || exit 2
if [ ! -x "$checkout/check" ] || [ ! -x "$checkout/ltp/fsstress" ]; then
    cannot "$checkout is not a built tree of xfstests: make"
fi
helper=/sbin/mount.fuse.granary
[ ! -e "$helper" ] || cannot "$helper is there: another run? Remove it if not"

# Words of `mkfs`: a testbed with the devices that the file system needs, and what would keep the space of removed files.
more=()
case $fs in
    orchfs* | nova | phfs) : "${testbed:=orchfs}" ;;
    devfs* | pmfs) : "${testbed:=devfs}" ;;
    spfs*) : "${testbed:=spfs}" ;;
    *-remap | *-fswrite | *-pebble) : "${testbed:=pebblessd}" ;;
esac
case $fs in
    nilfs2*) more=(--set nilfs2.protection_period=0) ;;
esac

scratch
chmod 711 "$work"
# All that descends from a process, it first.
family() {
    local child
    echo "$1"
    for child in $(ps -o pid= --ppid "$1"); do family "$child"; done
}
users=() check=""
cleanup() {
    local mount user
    [ -z "$check" ] || kill -9 $(family "$check")
    for mount in "$work/test" "$work/scratch"; do
        mountpoint -q "$mount" && { timeout 60 "$granary" umount "$mount" || umount -l "$mount"; }
    done
    for user in "${users[@]}"; do userdel "$user"; done
    rm -f "$helper"
}
# ./check and what it runs are not to survive this script.
trap 'exit 2' INT TERM HUP

# A name that begins with a digit is bad, for those versions of useradd that look.
for user in fsgqa fsgqa2 123456-fsgqa; do
    id "$user" >/dev/null 2>&1 && continue
    new=(-U -s /bin/bash -m -k /nonexistent -d "$work/home-$user" "$user")
    useradd --badname "${new[@]}" 2>/dev/null || useradd "${new[@]}" || cannot "no user $user"
    users+=("$user")
done
mkdir "$work/test" "$work/scratch" || exit 2
mkdir -p "${results:=$work/results}" && results=$(realpath "$results") || exit 2
for image in test.img scratch.img; do
    "$granary" mkfs --fs "$fs" ${testbed:+--testbed "$testbed"} --size "$size" "${more[@]}" "$work/$image" >/dev/null || exit 2
done

# mount(8) calls it: SOURCE DIR [-sfnv] [-o OPTIONS] [-t TYPE]. The kernel's own options are set by a second mount(2).
cat >"$helper" <<HELPER
#!/bin/bash
# Made by scripts/xfstests.sh for one run.
granary="$granary" log="$work/mounts.log"
HELPER
cat >>"$helper" <<'HELPER'
source=$1 dir=$2 options=""
shift 2
while getopts sfnvo:t:N: flag; do
    [ "$flag" = o ] && options=$options,$OPTARG
done
words=() flags="" remount=""
for option in ${options//,/ }; do
    case $option in
        remount) remount=1 ;;
        rw | defaults | suid | dev | exec | atime | diratime | relatime | async) flags=$flags,$option ;;
        ro) words+=(--read-only); flags=$flags,ro ;;
        # The server keeps access times: the kernel does not tell it these flags.
        noatime | strictatime) words+=(--set "host.vfs.atime=$option"); flags=$flags,$option ;;
        nosuid | nodev | noexec | nodiratime | norelatime | nostrictatime | lazytime | nolazytime | sync | dirsync) flags=$flags,$option ;;
        *) echo "mount.fuse.granary: no option '$option'" >&2; exit 32 ;;
    esac
done
if [ -n "$remount" ]; then
    exec mount -i -o "remount$flags" "$dir"
fi
# The server before may still write back: umount(2) does not wait for it.
for _ in $(seq 300); do
    said=$("$granary" mount --daemon --allow-other --suid --dev --xattrs --log "$log" "${words[@]}" "${source#granary:}" "$dir" 2>&1) && break
    case $said in
        *"in use by"*) sleep 0.1 ;;
        *) echo "$said" >&2; exit 32 ;;
    esac
done
mountpoint -q "$dir" || { echo "$said" >&2; exit 32; }
case $flags in
    *no* | *sync* | *strict* | *lazy*) exec mount -i -o "remount$flags" "$dir" ;;
esac
HELPER
chmod 755 "$helper"

# ./check compares a mount's type with `fuse`, and the kernel says fuse.granary.
mkdir "$work/bin"
cat >"$work/bin/df" <<DF
#!/bin/bash
set -o pipefail
$(command -v df) "\$@" | sed 's/ fuse\.granary / fuse /'
DF
chmod 755 "$work/bin" "$work/bin/df"
cat >"$work/local.config" <<CONFIG
export FSTYP=fuse FUSE_SUBTYP=.granary
export TEST_DEV=granary:$work/test.img TEST_DIR=$work/test
export SCRATCH_DEV=granary:$work/scratch.img SCRATCH_MNT=$work/scratch
export RESULT_BASE=$results
CONFIG

words=()
[ -z "$skip" ] || words+=(-e "$skip")
if [ ${#tests[@]} -gt 0 ]; then
    words+=("${tests[@]}")
else
    words+=(-g "generic/$group")
fi
cd "$checkout" || exit 2
PATH=$work/bin:$PATH HOST_OPTIONS=$work/local.config ./check -fuse -i "$repeat" "${words[@]}" >"$work/out" 2>&1 </dev/null &
check=$!
: >"$work/late"
shown=0
while kill -0 "$check" 2>/dev/null; do
    sleep 1
    # What it says, as it says it.
    now=$(wc -l <"$work/out")
    [ "$now" -gt "$shown" ] && sed -n "$((shown + 1)),${now}p" "$work/out"
    shown=$now
    for test in $(ps -o pid= --ppid "$check"); do
        { name=$(tr '\0' ' ' <"/proc/$test/cmdline"); } 2>/dev/null
        case $name in
            *"/tests/generic/"*) ;;
            *) continue ;;
        esac
        [ "$(ps -o etimes= -p "$test" | tr -d ' ')" -gt "$bound" ] 2>/dev/null || continue
        name=${name##*/tests/}
        echo "${name%% *}" >>"$work/late"
        kill -9 $(family "$test") 2>/dev/null
        # What it had started and left; and a server that does not answer, whose callers no signal ends.
        for name in test scratch; do
            mountpoint -q "$work/$name" || continue
            if timeout -k 1 10 stat -f "$work/$name" >/dev/null 2>&1; then
                timeout 10 fuser -k -m -M "$work/$name" >/dev/null 2>&1
            else
                echo "the mount of $name.img does not answer: killed"
                pkill -9 -f "$granary mount .*$work/$name.img"
                umount -l "$work/$name"
            fi
        done
    done
done
wait "$check"
check=""
sed -n "$((shown + 1)),\$p" "$work/out"

list() { sed -n "s/^$1: *//p" "$work/out" | tr -s ' ' '\n' | grep . | sort -u; }
list Ran >"$work/ran"
list "Not run" >"$work/notrun"
list Failures >"$work/failed"
[ -s "$work/ran" ] || cannot "./check ran nothing"
passed=$(sort "$work/notrun" "$work/failed" | comm -23 "$work/ran" - | wc -l)
result=0
echo
echo "$fs: passed $passed, not run $(wc -l <"$work/notrun"), failed $(wc -l <"$work/failed")${skip:+, left out $skip}"
while read -r name; do
    grep -qx "$name" "$work/late" && name="$name (killed after $bound s)"
    echo "failed: $name"
    result=1
done <"$work/failed"

for mount in test scratch; do
    mountpoint -q "$work/$mount" && "$granary" umount "$work/$mount"
    for _ in $(seq 300); do
        "$granary" fsck "$work/$mount.img" >"$work/fsck" 2>&1
        code=$?
        grep -q "in use by" "$work/fsck" || break
        sleep 0.1
    done
    [ "$code" = 0 ] || { echo "fsck of $mount.img:"; cat "$work/fsck"; result=1; }
done
exit $result
