//! [`Load`]: what the kernel's file system is busy with.

use super::client::Client;
use super::log::Log;
use granary_crash::{Promises, Recorded, Sequence, Sequences, Torture};
use granary_sim::rng::Stream;
use std::path::Path;
use std::sync::Arc;

/// Programs of a recording.
const PROGRAMS: usize = 16;
/// Calls of each.
const DEPTH: u32 = 3;
/// Operations of all clients of a torture together.
const OPERATIONS: u32 = 450;

/// A load.
#[derive(Clone, Debug)]
pub enum Load {
    /// Torture and programs in turn.
    Both,
    /// One to three clients that rename, link, truncate, write and sync.
    Torture,
    /// Short generated programs, one behind the other.
    Programs,
    /// This program.
    This(Box<Sequence>),
}

impl Load {
    /// The one with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn parse(text: &str) -> Result<Load, String> {
        match text {
            "torture" => Ok(Load::Torture),
            "programs" => Ok(Load::Programs),
            program if program.contains('(') => Sequence::parse(program).map(|s| Load::This(Box::new(s))),
            _ => Err(format!(
                "no load '{text}' for the kernel's file systems: choose from torture, programs, or write a program \
                 like 'creat(/A/foo) fsync'"
            )),
        }
    }

    /// The name of what a recording with this seed runs.
    pub fn name(&self, seed: u64) -> String {
        match self {
            Load::Both if seed.is_multiple_of(2) => "torture".to_owned(),
            Load::Both | Load::Programs => "programs".to_owned(),
            Load::Torture => "torture".to_owned(),
            Load::This(program) => granary_crash::Load::name(&**program).to_owned(),
        }
    }

    /// Runs it below `root`.
    ///
    /// # Errors
    /// An error that the load did not provoke, in one sentence.
    pub fn run(&self, root: &Path, log: &Arc<Log>, promises: &Promises, seed: u64) -> Result<(), String> {
        let mut random = Stream::new(seed, "kernel load");
        let client = |number| {
            let client = Client::new(root, number, Some(Arc::clone(log)));
            Recorded::new(client, promises.clone()).with_unique_fills()
        };
        match self {
            Load::Both if seed.is_multiple_of(2) => torture(&client, &mut random),
            Load::Torture => torture(&client, &mut random),
            Load::Both | Load::Programs => {
                let programs = Sequences::sample(DEPTH, PROGRAMS, seed);
                let mut posix = client(0);
                let mut all = programs.iter().enumerate();
                all.try_for_each(|(i, program)| program.calls(&mut posix, i == 0))
            }
            Load::This(program) => program.calls(&mut client(0), true),
        }
    }
}

fn torture(client: &impl Fn(u32) -> Recorded<Client>, random: &mut Stream) -> Result<(), String> {
    let clients = 1 + random.below(3) as u32;
    let size = [24 << 10, 96 << 10][random.below(2) as usize];
    let load = Torture { clients, ops: OPERATIONS / clients, size, ..Torture::default() };
    load.prepare(&mut client(0))?;
    let tasks: Vec<_> = (0..clients)
        .map(|id| {
            let (posix, random) = (client(id), Stream::new(random.next_u64(), "kernel client"));
            granary_sim::spawn("kernel client", move || load.client(id, posix, random).map(drop))
        })
        .collect();
    let ended: Vec<Result<(), String>> = tasks.into_iter().map(granary_sim::JoinHandle::join).collect();
    ended.into_iter().collect()
}
