//! Drives around other drives, and drives that have the least: which calls are passed on is written down,
//! call by call.
//!
//! [`Drive`](crate::Drive) has no bodies to inherit. A wrapper that names neither its own way of a call nor
//! the call in [`forward_drive!`](crate::forward_drive) does not compile, so a call that is added later is
//! decided in each.

/// Within `impl Drive for Wrapper`: passes the named calls on to the drive in the field of this name.
///
/// ```ignore
/// impl Drive for Counting {
///     granary_device::forward_drive!(inner: info, load, flush_lines, verify /* ... */);
///     fn submit(&self, now: Nanos, command: Command<'_>) -> Result<Nanos, DriveError> {
///         self.commands.fetch_add(1, Relaxed);
///         self.inner.submit(now, command)
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_drive {
    ($inner:ident: $($call:ident),+ $(,)?) => { $($crate::forward_drive_call!($inner $call);)+ };
}

/// One call of [`forward_drive!`](crate::forward_drive).
#[doc(hidden)]
#[macro_export]
macro_rules! forward_drive_call {
    ($inner:ident info) => {
        fn info(&self) -> $crate::DriveInfo {
            self.$inner.info()
        }
    };
    ($inner:ident identify) => {
        fn identify(&self, facts: &mut dyn std::any::Any) -> bool {
            self.$inner.identify(facts)
        }
    };
    ($inner:ident load) => {
        fn load(
            &self,
            now: $crate::units::Nanos,
            at: $crate::units::ByteAddr,
            out: &mut [u8],
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.load(now, at, out, what)
        }
    };
    ($inner:ident store_from) => {
        fn store_from(
            &self,
            core: u16,
            now: $crate::units::Nanos,
            at: $crate::units::ByteAddr,
            data: &[u8],
            tx: $crate::units::TxId,
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.store_from(core, now, at, data, tx, what)
        }
    };
    ($inner:ident flush_lines) => {
        fn flush_lines(
            &self,
            now: $crate::units::Nanos,
            at: $crate::units::ByteAddr,
            len: usize,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.flush_lines(now, at, len)
        }
    };
    ($inner:ident stream) => {
        fn stream(
            &self,
            now: $crate::units::Nanos,
            lpa: $crate::units::Lpa,
            from: usize,
            data: $crate::Streamed<'_>,
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.stream(now, lpa, from, data, what)
        }
    };
    ($inner:ident load_pages) => {
        fn load_pages(
            &self,
            now: $crate::units::Nanos,
            at: $crate::units::ByteAddr,
            len: usize,
            out: &mut [$crate::units::Page],
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.load_pages(now, at, len, out, what)
        }
    };
    ($inner:ident load_known) => {
        fn load_known(
            &self,
            now: $crate::units::Nanos,
            runs: &[($crate::units::Lpa, usize)],
            until: $crate::units::Nanos,
            known: &[$crate::units::Page],
            fresh: &mut [$crate::units::Page],
            what: $crate::Structure,
        ) -> $crate::Chain {
            self.$inner.load_known(now, runs, until, known, fresh, what)
        }
    };
    ($inner:ident verify) => {
        fn verify(&self, now: $crate::units::Nanos) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.verify(now)
        }
    };
    ($inner:ident submit) => {
        fn submit(
            &self,
            now: $crate::units::Nanos,
            command: $crate::Command<'_>,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.submit(now, command)
        }
    };
    ($inner:ident look_ahead) => {
        fn look_ahead(&self, lpas: &[$crate::units::Lpa]) {
            self.$inner.look_ahead(lpas);
        }
    };
    ($inner:ident look_ahead_lines) => {
        fn look_ahead_lines(&self, at: &[$crate::units::ByteAddr]) {
            self.$inner.look_ahead_lines(at);
        }
    };
    ($inner:ident wants_attention) => {
        fn wants_attention(&self) -> bool {
            self.$inner.wants_attention()
        }
    };
    ($inner:ident settle) => {
        fn settle(&self, now: $crate::units::Nanos) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.settle(now)
        }
    };
    ($inner:ident power_fail) => {
        fn power_fail(&self, now: $crate::units::Nanos, random: &mut $crate::Random) {
            self.$inner.power_fail(now, random);
        }
    };
    ($inner:ident power_on) => {
        fn power_on(&self, now: $crate::units::Nanos) -> Result<$crate::units::Nanos, $crate::DriveError> {
            self.$inner.power_on(now)
        }
    };
    ($inner:ident track_in_flight) => {
        fn track_in_flight(&self, on: bool) {
            self.$inner.track_in_flight(on);
        }
        fn answer_late(&self, seed: Option<u64>) {
            self.$inner.answer_late(seed);
        }
    };
    ($inner:ident traffic) => {
        fn traffic(&self) -> $crate::LinkTraffic {
            self.$inner.traffic()
        }
    };
    ($inner:ident counters) => {
        fn counters(&self) -> $crate::DriveCounters {
            self.$inner.counters()
        }
    };
    ($inner:ident counters_at) => {
        fn counters_at(&self, now: $crate::units::Nanos) -> $crate::DriveCounters {
            self.$inner.counters_at(now)
        }
    };
    ($inner:ident check) => {
        fn check(&self) -> Result<(), Vec<String>> {
            self.$inner.check()
        }
    };
}

/// Within `impl Drive for Simple`: every call that others can be made of, made of them; nothing counted but
/// traffic. For the simple drives of tests.
#[macro_export]
macro_rules! plain_drive {
    () => {
        fn stream(
            &self,
            now: $crate::units::Nanos,
            lpa: $crate::units::Lpa,
            from: usize,
            data: $crate::Streamed<'_>,
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            $crate::stream_by_store(self, now, lpa, from, data, what)
        }

        fn load_pages(
            &self,
            now: $crate::units::Nanos,
            at: $crate::units::ByteAddr,
            len: usize,
            out: &mut [$crate::units::Page],
            what: $crate::Structure,
        ) -> Result<$crate::units::Nanos, $crate::DriveError> {
            $crate::load_pages_by_load(self, now, at, len, out, what)
        }

        $crate::plain_chains!();

        fn counters(&self) -> $crate::DriveCounters {
            $crate::DriveCounters { link: self.traffic(), ..$crate::DriveCounters::default() }
        }

        fn counters_at(&self, _now: $crate::units::Nanos) -> $crate::DriveCounters {
            self.counters()
        }
    };
}

/// Within `impl Drive`: chains of loads one by one, no use for hints, and no BAM.
#[macro_export]
macro_rules! plain_chains {
    () => {
        fn load_known(
            &self,
            now: $crate::units::Nanos,
            runs: &[($crate::units::Lpa, usize)],
            until: $crate::units::Nanos,
            known: &[$crate::units::Page],
            fresh: &mut [$crate::units::Page],
            what: $crate::Structure,
        ) -> $crate::Chain {
            $crate::load_one_by_one(self, now, runs, until, known, fresh, what)
        }

        fn look_ahead(&self, _lpas: &[$crate::units::Lpa]) {}

        fn look_ahead_lines(&self, _at: &[$crate::units::ByteAddr]) {}

        fn wants_attention(&self) -> bool {
            false
        }

        fn identify(&self, _facts: &mut dyn std::any::Any) -> bool {
            false
        }
    };
}
