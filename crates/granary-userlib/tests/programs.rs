//! Programs with the library in front of libc, on a mount of each file system: their results are right, seen
//! from both sides, and their calls went the direct way.

use granary_device::{Devices, Need, Role};
use granary_fs::FileSystem;
use granary_mount::{Mounted, Operation, Options, host_config};
use granary_mssd::Mssd;
use granary_orchfs::OrchFs;
use granary_pmem::{Dimm, DimmConfig};
use granary_testbed::Testbed;
use granary_testbed::registry::{self, FILE_SYSTEMS, FsEntry};
use granary_units::Bytes;
use granary_vfs::{Vfs, VfsConfig};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

/// The library, as cargo has built it for these tests.
fn library() -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    let deps = me.parent().expect("a directory");
    let places = [deps.join("libgranary_userlib.so"), deps.join("../libgranary_userlib.so")];
    places.into_iter().find(|path| path.is_file()).expect("the library is built with its tests")
}

fn example(name: &str) -> PathBuf {
    let me = std::env::current_exe().expect("a path");
    me.parent().expect("a directory").join("../examples").join(name)
}

fn exercise() -> PathBuf {
    example("exercise")
}

struct Rig {
    mounted: Mounted,
    socket: PathBuf,
    dir: tempfile::TempDir,
    _devices: Devices,
}

/// Devices for a file system, formatted.
fn devices(fs: &FsEntry, testbed: &Testbed) -> Devices {
    let mut config = testbed.ssd_for(Some(fs)).expect("an SSD");
    config.flash = config.flash.with_capacity(Bytes::mib(512));
    let mut devices = Devices::ssd(Arc::new(Mssd::new(&config).expect("a drive")));
    if fs.needs.contains(&Need::Nvm) {
        let dimm = DimmConfig::optane_dcpmm().with_capacity(Bytes::mib(64));
        devices = devices.with(Role::Nvm, Arc::new(Dimm::new(&dimm).expect("a DIMM")));
    }
    registry::mkfs(fs, &devices).expect("mkfs");
    devices
}

fn testbed() -> Testbed {
    Testbed::load("bytefs-emulator", &["nilfs2.protection_period=0".to_owned()]).expect("built in")
}

impl Rig {
    fn new(fs: &'static FsEntry) -> Rig {
        let testbed = testbed();
        let devices = devices(fs, &testbed);
        let inner = registry::mount(fs, &devices, &testbed, false).expect("mount");
        Rig::of(inner, devices)
    }

    fn of(inner: Arc<dyn FileSystem>, devices: Devices) -> Rig {
        let vfs = Vfs::mount(inner, host_config(VfsConfig::default(), Bytes::mib(64), false)).expect("vfs");
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("set");
        fs::create_dir(dir.path().join("mnt")).expect("made");
        let socket = dir.path().join("socket");
        let options = Options { allow_other: true, direct: Some(socket.clone()), ..Options::default() };
        let mounted = granary_mount::mount(vfs, &dir.path().join("mnt"), &options).expect("mounts");
        Rig { mounted, socket, dir, _devices: devices }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    fn program(&self, name: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(name);
        command
            .env("LD_PRELOAD", library())
            .env("GRANARY_DIRECT_SOCKET", &self.socket)
            .env("GRANARY_DIRECT_DIR", self.mounted.dir());
        command
    }

    /// Runs a program; returns its stdout.
    fn run(&self, name: impl AsRef<OsStr>, args: &[&OsStr]) -> String {
        let out = self.program(&name).args(args).output().expect("starts");
        let (said, failed) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{}: {:?}: {failed}", name.as_ref().display(), out.status);
        said.into_owned()
    }

    fn commands(&self, op: Operation) -> u64 {
        self.mounted.operations().of_direct(op)
    }

    fn finish(self) {
        self.mounted.unmount().expect("nobody has it in use, and it ends cleanly");
    }
}

/// File systems whose code differs: those with crash cases, the first of each section.
fn systems() -> Vec<&'static FsEntry> {
    let mut seen = Vec::new();
    let section = |fs: &FsEntry| fs.options.map_or(fs.name, |options| options.section);
    let testbed = Testbed::load("bytefs-emulator", &[]).expect("built in");
    let served = |fs: &FsEntry| fs.needs.contains(&Need::Nvm) || testbed.roles_for(fs).is_ok();
    FILE_SYSTEMS
        .iter()
        .filter(|fs| served(fs) && !fs.crash.is_empty())
        .filter(|fs| {
            let first = !seen.contains(&section(fs));
            seen.push(section(fs));
            first
        })
        .collect()
}

fn find(name: &str) -> &'static FsEntry {
    registry::find(name).expect("registered")
}

fn possible() -> bool {
    let there = Path::new("/dev/fuse").exists();
    if !there {
        granary_suite::skip::skipped("/dev/fuse is missing");
    }
    there
}

fn has(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        granary_suite::skip::skipped(format_args!("{program} is missing"));
    }
    there
}

#[test]
fn a_program_finds_every_call_as_its_manual_says() {
    if !possible() {
        return;
    }
    for fs in systems() {
        let rig = Rig::new(fs);
        eprintln!("on {}", fs.name);
        rig.run(exercise(), &[rig.path("").as_os_str()]);
        assert!(rig.commands(Operation::Write) > 800, "{}: they went through the kernel", fs.name);
        assert!(rig.commands(Operation::Read) > 100, "{}", fs.name);
        // With one processor the kernel makes them.
        let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        assert!(!several || rig.commands(Operation::Create) > 5, "{}", fs.name);
        assert_eq!(fs::read(rig.path("positions")).expect("read"), b"01234abcd9");
        rig.finish();
    }
}

/// The other's bytes, or an error, is what a child got that shared its parent's channel.
#[test]
fn children_of_every_kind_find_their_own_files() {
    if !possible() {
        return;
    }
    let rig = Rig::new(find("bytefs"));
    rig.run(example("children"), &[rig.path("").as_os_str()]);
    assert!(rig.commands(Operation::Read) > 5000, "they went through the kernel");
    rig.finish();
}

/// OrchFS lends each file to the process that writes to it. A killed process gives its files back at once.
#[test]
fn a_killed_program_gives_back_what_it_was_lent() {
    if !possible() {
        return;
    }
    let devices = devices(find("orchfs"), &testbed());
    let ports = [Need::Nvm, Need::Blocks].map(|need| devices.serving(need).expect("there").clone());
    let [nvm, ssd] = ports;
    let orchfs: Arc<OrchFs> =
        granary_orchfs::mount(nvm, ssd, &granary_orchfs::MountOptions::default()).expect("mount");
    let rig = Rig::of(orchfs.clone(), devices);
    let before = orchfs.leased();
    let script = format!("exec 3>{}; echo text >&3; echo ready; read nothing", rig.path("lent").display());
    let mut program = rig
        .program("sh")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut line = String::new();
    BufReader::new(program.stdout.take().expect("piped")).read_line(&mut line).expect("read");
    assert_eq!(line, "ready\n");
    assert!(orchfs.leased() > before && rig.commands(Operation::Write) > 0, "it was lent the file");
    program.kill().expect("killed");
    program.wait().expect("ended");
    let given_back = (0..500).any(|_| {
        #[allow(clippy::disallowed_methods, reason = "the kernel closes sockets on the wall clock")]
        std::thread::sleep(std::time::Duration::from_millis(10));
        orchfs.leased() == before
    });
    assert!(given_back, "{} files are lent to nobody", orchfs.leased());
    assert_eq!(fs::read(rig.path("lent")).expect("read"), b"text\n");
    drop(orchfs);
    rig.finish();
}

/// A list of calls, right and wrong ones, as root and as another user: each says the same with the library as
/// without, and leaves the same behind.
#[test]
fn calls_on_names_say_what_they_say_through_the_kernel() {
    if !possible() {
        return;
    }
    // The library and what it is loaded into must be readable for another user.
    let list = |dir: &Path| {
        let out = Command::new("find")
            .arg(dir)
            .args(["-mindepth", "1", "-printf", "%P %M %n %U %G %l\\n"])
            .output();
        let mut lines: Vec<String> =
            String::from_utf8_lossy(&out.expect("starts").stdout).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    for fs in ["bytefs", "ext4", "nova"] {
        let rig = Rig::new(find(fs));
        for dir in ["direct", "kernel"] {
            fs::create_dir(rig.path(dir)).expect("made");
        }
        let said = rig.run(example("names"), &[rig.path("direct").as_os_str()]);
        let out = Command::new(example("names")).arg(rig.path("kernel")).output().expect("starts");
        let kernel = String::from_utf8_lossy(&out.stdout);
        for (direct, kernel) in said.lines().zip(kernel.lines()) {
            assert_eq!(direct, kernel, "{fs}: with the library, and without");
        }
        assert_eq!(said.lines().count(), kernel.lines().count(), "{fs}");
        let (direct, kernel) = (list(&rig.path("direct")), list(&rig.path("kernel")));
        assert!(!direct.is_empty());
        assert_eq!(direct, kernel, "{fs}: what is left");
        for op in
            [Operation::Mkdir, Operation::Rename, Operation::Setattr, Operation::Unlink, Operation::Link]
        {
            assert!(rig.commands(op) > 1, "{fs}: {op:?} went through the kernel");
        }
        rig.finish();
    }
}

/// POSIX's demands on each call, by several users: pjdfstest 0.2.2, a dynamically linked program.
#[test]
fn pjdfstest_finds_nothing_that_posix_forbids() {
    let users = [("nobody", "nogroup"), ("daemon", "daemon"), ("bin", "bin")];
    let known = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines().any(|line| line.split(':').next() == Some(name))
    };
    let there = users.iter().all(|(user, group)| known("/etc/passwd", user) && known("/etc/group", group));
    if !possible() || !has("pjdfstest") || !there || !rustix::process::geteuid().is_root() {
        granary_suite::skip::skipped("pjdfstest acts as nobody, daemon and bin, which takes root");
        return;
    }
    let rig = Rig::new(find("bytefs"));
    let entries = users.map(|(user, group)| format!("[{user:?}, {group:?}]")).join(", ");
    let features = ["posix_fallocate", "rename_ctime", "utimensat", "utime_now"]
        .map(|f| format!("{f} = {{}}\n"))
        .concat();
    let config = rig.dir.path().join("pjd.toml");
    let text =
        format!("[features]\n{features}[settings]\nnaptime = 0.02\n[dummy_auth]\nentries = [{entries}]\n");
    fs::write(&config, text).expect("written");
    let out = rig
        .program("pjdfstest")
        .args(["-c".as_ref(), config.as_os_str(), "-p".as_ref(), rig.mounted.dir().as_os_str()])
        .current_dir(rig.mounted.dir())
        .output()
        .expect("starts");
    let told = [&out.stdout[..], &out.stderr].map(String::from_utf8_lossy).concat();
    let failed: Vec<&str> = told.lines().filter(|l| !l.ends_with(" ok") && !l.contains("skipped")).collect();
    assert!(out.status.success(), "{}", failed.join("\n"));
    let passed = told.lines().filter(|line| line.ends_with(" ok")).count();
    assert!(passed > 300, "{passed} passed: {told}");
    for op in [
        Operation::Mkdir,
        Operation::Unlink,
        Operation::Rename,
        Operation::Setattr,
        Operation::Link,
        Operation::Symlink,
    ] {
        assert!(rig.commands(op) > 50, "{op:?} went through the kernel");
    }
    rig.finish();
}

#[test]
fn without_a_server_everything_goes_to_the_kernel() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(exercise());
    command
        .arg(dir.path())
        .env("LD_PRELOAD", library())
        .env("GRANARY_DIRECT_SOCKET", dir.path().join("none"))
        .env("GRANARY_DIRECT_DIR", dir.path());
    let out = command.output().expect("starts");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn a_database_commits_directly_and_another_program_reads_it_through_the_kernel() {
    if !possible() || !has("sqlite3") {
        return;
    }
    for (fs, mode) in [("bytefs", "delete"), ("ext4", "wal"), ("devfs", "wal")] {
        let rig = Rig::new(find(fs));
        let db = rig.path("db");
        let script = format!(
            "PRAGMA journal_mode={mode}; CREATE TABLE t(x); \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) INSERT INTO t SELECT i FROM n; \
             UPDATE t SET x = x + 1;"
        );
        rig.run("sqlite3", &[db.as_os_str(), OsStr::new(&script)]);
        let synced = rig.commands(Operation::Fsync) + rig.commands(Operation::Fdatasync);
        assert!(synced > 0, "{fs}: its commits went through the kernel");
        let seen =
            Command::new("sqlite3").arg(&db).arg("SELECT sum(x) FROM t; PRAGMA integrity_check").output();
        assert_eq!(String::from_utf8_lossy(&seen.expect("starts").stdout), "125750\nok\n", "{fs}");
        rig.finish();
    }
}

/// A file that another user may not read through the kernel is one that they may not read directly.
#[test]
fn another_user_gets_what_the_kernel_gives() {
    if !possible() || !has("setpriv") || !rustix::process::geteuid().is_root() {
        return;
    }
    let rig = Rig::new(find("bytefs"));
    fs::set_permissions(rig.path(""), fs::Permissions::from_mode(0o777)).expect("set");
    fs::write(rig.path("secret"), b"secret").expect("written");
    fs::set_permissions(rig.path("secret"), fs::Permissions::from_mode(0o600)).expect("set");
    let script = format!(
        "cat {0}/secret 2>&1; echo mine > {0}/mine; cat {0}/mine; stat -c %u {0}/mine",
        rig.mounted.dir().display()
    );
    // Its own library path may not be readable for others: a copy is.
    let readable = rig.dir.path().join("lib.so");
    fs::copy(library(), &readable).expect("copied");
    let out = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"])
        .arg(&script)
        .env("LD_PRELOAD", &readable)
        .env("GRANARY_DIRECT_SOCKET", &rig.socket)
        .env("GRANARY_DIRECT_DIR", rig.mounted.dir())
        .output()
        .expect("starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(said.contains("ermission denied") && !said.contains("secret\n"), "{said}");
    assert!(said.ends_with("mine\n65534\n"), "{said}");
    rig.finish();
}
