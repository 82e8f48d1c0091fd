//! What is registered without pins, and whose it is. Needs root and a kernel that permits it; says
//! so where it is not tested.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use cellpace_kernel::facts::{Facts, btf_path, running_variant};
use cellpace_kernel::install::{InstallError, InstallOptions, install};
use cellpace_kernel::load::{CELLPACE, open_object, suffix};
use cellpace_kernel::mdi::{self, Done, Loaded, NativeError, TableInstallation};
use cellpace_kernel::{KernelError, installed, native, pins, remove, table};
use libbpf_rs::{ErrorKind, MapCore};

/// A name of this test's own, free again at the end, whatever happens.
pub(crate) struct Name(pub(crate) String);

impl Name {
    pub(crate) fn new(letter: char) -> Self {
        Self(format!("cp_{letter}{:x}", std::process::id()))
    }

    fn driver(&self) -> InstallOptions {
        InstallOptions { name: self.0.clone(), ..InstallOptions::default() }
    }

    fn table(&self, spec: &str) -> TableInstallation {
        let spec = cellpace_cc::ControllerSpec::parse(spec, &mut |_| unreachable!()).unwrap();
        let flat = spec.markov_walk().unwrap().flat;
        TableInstallation { name: self.0.clone(), ..TableInstallation::new(flat) }
    }

    pub(crate) fn is_listed(&self) -> bool {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.unwrap().split_whitespace().any(|listed| listed == self.0)
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = remove(&self.0);
        let _ = table::remove(&self.0);
        let _ = native::remove(&self.0);
        assert!(!self.is_listed() || std::thread::panicking());
    }
}

/// `false`, and a line that says why, where BPF is not permitted.
fn is_permitted(result: Result<(), InstallError>) -> bool {
    match result {
        Ok(()) => true,
        Err(
            error @ (InstallError::NoBtf { .. }
            | InstallError::Kernel(_)
            | InstallError::System { .. }),
        ) => {
            cellpace_testing::skip(error);
            false
        }
        Err(InstallError::Bpf { source, .. }) if source.kind() == ErrorKind::PermissionDenied => {
            cellpace_testing::skip(source);
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Whether a driver can be installed here, which is installed then.
fn installs(name: &Name) -> bool {
    is_permitted(install(&name.driver()).map(drop))
}

/// Whether a table can be, which takes more of the kernel.
fn takes_tables() -> bool {
    let obstacles = Facts::find(cellpace_kernel::NAME).obstacles_to_mdi();
    for obstacle in &obstacles {
        cellpace_testing::skip(obstacle);
    }
    obstacles.is_empty()
}

fn remove_folder(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    fs::remove_dir(folder).unwrap();
}

#[test]
fn a_driver_without_pins_is_found_and_removed() {
    let name = Name::new('a');
    if !installs(&name) {
        return;
    }
    remove_folder(&pins(&name.0));
    let error = installed(&name.0).unwrap_err();
    assert!(matches!(error, KernelError::PinsGone), "{error}");
    assert_eq!(table::installed(&name.0).unwrap(), None, "a driver is no table");
    assert!(!table::remove(&name.0).unwrap());
    assert!(name.is_listed(), "and is not removed as one");
    assert_eq!(remove(&name.0).unwrap().sockets, Some(0));
    assert!(!name.is_listed());
    assert!(matches!(remove(&name.0), Err(KernelError::NotInstalled)));
}

#[test]
fn a_driver_that_lost_one_pin_is_removed_with_the_others() {
    for pin in ["cc", "shared", "ring07"] {
        let name = Name::new('b');
        if !installs(&name) {
            return;
        }
        fs::remove_file(pins(&name.0).join(pin)).unwrap();
        remove(&name.0).unwrap();
        assert!(!name.is_listed() && !pins(&name.0).exists(), "{pin}");
    }
}

#[test]
fn a_driver_without_pins_is_replaced() {
    let name = Name::new('c');
    if !installs(&name) {
        return;
    }
    remove_folder(&pins(&name.0));
    let done = install(&name.driver()).unwrap();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    assert_eq!((done.was_there, done.replaced), (false, Some((version, 0))));
    assert_eq!(installed(&name.0).unwrap().name, name.0);
}

/// The same programs, and the same names, but nobody has said in the shared page that it is ours.
#[test]
fn what_only_looks_like_ours_is_left_alone() {
    let name = Name::new('d');
    if !installs(&name) {
        return;
    }
    remove(&name.0).unwrap();
    let variant = running_variant(&btf_path()).unwrap().unwrap();
    let mut object = open_object(CELLPACE, variant, &name.0).unwrap().load().unwrap();
    let ours =
        |map: &libbpf_rs::MapMut<'_>| map.name().to_string_lossy().ends_with(suffix(variant));
    let link = object.maps_mut().find(ours).unwrap().attach_struct_ops().unwrap();
    assert!(name.is_listed());
    let errors = [installed(&name.0).map(drop), remove(&name.0).map(drop)];
    for error in errors {
        assert!(matches!(error, Err(KernelError::Foreign(_))), "{error:?}");
    }
    let error = install(&name.driver()).unwrap_err();
    assert!(matches!(error, InstallError::Driver(KernelError::Foreign(_))), "{error}");
    if takes_tables() {
        let error = mdi::install(&name.table("mdi")).unwrap_err();
        assert!(matches!(error, NativeError::Foreign(_)), "{error}");
    }
    assert_eq!(table::installed(&name.0).unwrap(), None);
    assert!(!table::remove(&name.0).unwrap());
    assert!(name.is_listed());
    drop(link);
    assert!(!name.is_listed());
}

#[test]
fn a_table_is_no_driver_and_is_described() {
    let name = Name::new('e');
    if !takes_tables() || !installs(&name) {
        return;
    }
    remove(&name.0).unwrap();
    let origin = table::TableOrigin {
        teacher: "somebody".to_owned(),
        controller: "x".repeat(200),
        sha256: [7; 32],
    };
    let settings = TableInstallation { seed: 9, everyone: true, origin, ..name.table("mdi") };
    assert_eq!(mdi::install(&settings).unwrap(), Done::New);
    let found = table::installed(&name.0).unwrap().unwrap();
    assert_eq!((found.origin.teacher.as_str(), found.origin.sha256), ("somebody", [7; 32]));
    assert_eq!(found.origin.controller, "x".repeat(127));
    assert_eq!(
        (found.seed, found.everyone, found.slow_start, found.pinned),
        (9, true, false, true)
    );
    // A word of the table takes eight bytes.
    let words = settings.flat.to_bytes().len() as u64 / 4;
    let memory = found.memory.unwrap();
    assert!((8 * words..9 * words).contains(&memory), "{memory} bytes for {words} words");
    assert_eq!((found.kind, found.sockets), ("levels", 0));
    for error in [installed(&name.0).map(drop), remove(&name.0).map(drop)] {
        assert!(matches!(error, Err(KernelError::NotInstalled)), "{error:?}");
    }
    assert!(table::remove(&name.0).unwrap());
    assert_eq!(table::installed(&name.0).unwrap(), None);
}

/// A process that holds the link keeps the table registered when the pin is gone.
#[test]
fn a_table_that_another_holds_is_replaced_and_removed() {
    let name = Name::new('f');
    if !takes_tables() || !installs(&name) {
        return;
    }
    remove(&name.0).unwrap();
    let held = Loaded::load(&name.table("mdi"), false).unwrap().register().unwrap();
    assert!(!table::installed(&name.0).unwrap().unwrap().pinned);
    match mdi::install(&name.table("mdi:empty=paper")) {
        Ok(done) => assert_eq!(done, Done::Replaced),
        Err(NativeError::Driver(KernelError::Held(_))) => {
            return cellpace_testing::skip("Linux before 6.11 detaches no such links");
        }
        Err(error) => panic!("{error}"),
    }
    assert!(table::installed(&name.0).unwrap().unwrap().pinned);
    // It held what is registered no more.
    drop(held);
    let soon = Instant::now() + Duration::from_millis(200);
    while Instant::now() < soon {
        assert!(name.is_listed());
    }
    let held = libbpf_rs::Link::open(pins(&name.0)).unwrap();
    fs::remove_file(pins(&name.0)).unwrap();
    assert!(!table::installed(&name.0).unwrap().unwrap().pinned);
    assert!(table::remove(&name.0).unwrap());
    assert!(!name.is_listed());
    drop(held);
}
