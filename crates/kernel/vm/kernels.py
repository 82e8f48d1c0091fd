"""Runs the tests of the kernel driver on every kernel for virtual machines that apt offers.

Usage: ./dev kernels [--kernel 6.1]... [--suite bullseye-security]... [--program cellpace/kernel]...

Each kernel boots in QEMU from one image: a small Debian of this machine's release, so that programs
built here run there, with the test programs in the folders that they have here. A second check boots
the same Debian three times with systemd: the driver is installed with --persist, is there after a
restart, and is gone after a removal and another restart.

Prints a table and exits with 1 if something failed, or a machine did not start or end. Where there is
no QEMU, no kernel, or no root, it says so and exits with 0. All files are in a temporary folder.
"""

import argparse
import json
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
TOOLS = ["qemu-system-x86_64", "mmdebstrap", "busybox", "mke2fs", "depmod", "apt-get", "dpkg", "clang"]
# What the tests call, and what the programs are linked with.
DEBIAN = [
    "systemd-sysv", "dbus", "passwd", "kmod", "python3", "iproute2", "iputils-ping", "nftables", "curl",
    "procps", "gcc", "libc6-dev", "libelf1", "zlib1g", "nginx-light",
]
PROGRAMS = {
    "cellpace-kernel": ["driver", "attach", "mdi", "native", "prompt", "descriptors", "pins"],
    "cellpace": ["kernel", "kernel_native", "kernel_pins", "attach", "kernel_mdi", "run", "link"],
}
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
MINUTE = 60


def say(text):
    print(f"==> {text}", flush=True)


def run(*command, **options):
    return subprocess.run(command, check=True, text=True, **options)


def output(*command, **options):
    return run(*command, stdout=subprocess.PIPE, **options).stdout


def obstacle():
    """Why nothing can be run here, or None."""
    if os.uname().machine != "x86_64":
        return "only on x86-64"
    if os.geteuid() != 0:
        return "only root can make the image of a Debian"
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    return f"not installed: {', '.join(missing)}" if missing else None


def accelerator():
    """KVM needs the processor's support: a /dev/kvm alone may be there without, and boot nothing."""
    flags = Path("/proc/cpuinfo").read_text().split()
    if os.access("/dev/kvm", os.R_OK | os.W_OK) and ("vmx" in flags or "svm" in flags):
        return ["-accel", "kvm", "-cpu", "host", "-smp", "2"]
    say("no KVM that works: the processor is emulated, and its clock counts instructions")
    # So that what has to be done in time is, however slow this machine is. Nothing is waited for: where
    # the virtual processor has nothing to do its clock goes on to the next timer.
    return ["-accel", "tcg", "-icount", "shift=0,sleep=off", "-cpu", "max", "-smp", "1"]


def build():
    """Suites: a name, the folder to run in, the test program, and its tests; and the program itself."""
    found, program = [], None
    run("cargo", "build", "--quiet", "--package", "cellpace-preload", cwd=REPOSITORY)
    for package, modules in PROGRAMS.items():
        feature = "cellpace/kernel" if package == "cellpace" else "cellpace-kernel/install"
        targets = ["--test=it", *(["--lib"] if package == "cellpace-kernel" else [])]
        lines = output(
            "cargo", "test", "--no-run", "--quiet", "--message-format=json", "--package", package,
            "--features", feature, *targets, cwd=REPOSITORY,
        )
        for line in lines.splitlines():
            message = json.loads(line)
            if message.get("reason") != "compiler-artifact" or not message.get("executable"):
                continue
            path, name = Path(message["executable"]), message["target"]["name"]
            folder = Path(message["manifest_path"]).parent
            if message["profile"]["test"] and name == "it":
                found += [(f"{package}/{module}", folder, path, f"{module}:: --include-ignored") for module in modules]
            elif message["profile"]["test"]:
                found.append((f"{package}/{name}", folder, path, ""))
            elif name == "cellpace":
                program = path
    return found, program


def other_suites(suites, folder):
    """Options for apt, which then knows these suites of Debian besides this machine's release."""
    if not suites:
        return []
    listing = output(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
        "Created-By: Packages", "Origin: Debian",
    )
    known = sorted({tuple(line.split()) for line in listing.splitlines() if line.endswith(" main")})
    lines = [entry(uri, release) for uri, release, _ in known]
    for suite in suites:
        # Security updates come from a place of their own.
        is_it = [target for target in known if ("-security" in target[1]) == ("-security" in suite)]
        if not is_it:
            raise SystemExit(f"kernels.py: this machine's apt does not know where {suite} is")
        lines.append(entry(is_it[0][0], suite))
    apt = folder / "apt"
    for name in ["lists/partial", "cache/archives/partial"]:
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text("".join(lines))
    options = [
        "-o", f"Dir::Etc::sourcelist={apt}/sources.list", "-o", "Dir::Etc::sourceparts=-",
        "-o", f"Dir::State::lists={apt}/lists", "-o", f"Dir::Cache={apt}/cache",
        "-o", "APT::Sandbox::User=root",
    ]
    run("apt-get", *options, "update", "-qq")
    return options


def entry(uri, suite):
    return f"deb [signed-by={KEYS}] {uri} {suite} main\n"


def offered(apt):
    """For each series of kernels (6.1) the newest package with one for virtual machines."""
    newest = {}
    listing = output("apt-cache", *apt, "search", "--names-only", r"^linux-image-[0-9].*-cloud-amd64$")
    for line in listing.splitlines():
        package = line.split()[0]
        version = re.fullmatch(r"linux-image-(\d+)\.(\d+)\.(\d+)(?:-(\d+))?.*", package)
        if not version:
            continue
        major, minor, *rest = (int(number or 0) for number in version.groups())
        newest[major, minor] = max(newest.get((major, minor), ([], "")), (rest, package))
    return {f"{major}.{minor}": newest[major, minor][1] for major, minor in sorted(newest)}


class Kernel:
    """A kernel of Debian, unpacked, and the first file system that it needs."""

    def __init__(self, series, package, folder, apt):
        self.series, self.folder = series, folder / series
        self.folder.mkdir()
        # apt downloads as a user who has to be able to write.
        self.folder.chmod(0o777)
        run("apt-get", *apt, "download", "-qq", package, cwd=self.folder)
        run("dpkg", "-x", next(self.folder.glob("*.deb")), self.folder)
        self.image = next(self.folder.glob("boot/vmlinuz-*"))
        self.release = self.image.name.removeprefix("vmlinuz-")
        self.modules = self.folder / "lib/modules" / self.release
        run("depmod", "-b", self.folder, self.release)
        self.first = self.first_file_system()

    def needed(self, names):
        """Modules in the order in which they can be loaded; what is built in is none."""
        needs = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            path, rest = line.split(":")
            needs[Path(path).name.split(".")[0]] = [path, *rest.split()]
        paths = []
        for name in names:
            paths += [path for path in reversed(needs.get(name, [])) if path not in paths]
        return paths

    def first_file_system(self):
        tree = self.folder / "first"
        for folder in ["bin", "lib"]:
            (tree / folder).mkdir(parents=True)
        shutil.copy(shutil.which("busybox"), tree / "bin/busybox")
        shutil.copy(HERE / "first.sh", tree / "init")
        (tree / "init").chmod(0o755)
        names = []
        for path in self.needed(["virtio_pci", "virtio_blk"]):
            content = (self.modules / path).read_bytes()
            name = Path(path).name
            if name.endswith(".xz"):
                content, name = lzma.decompress(content), name.removesuffix(".xz")
            (tree / "lib" / name).write_bytes(content)
            names.append(name)
        (tree / "modules").write_text("".join(f"{name}\n" for name in names))
        archive = self.folder / "first.cpio"
        files = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
        with open(archive, "w") as file:
            run("busybox", "cpio", "-o", "-H", "newc", cwd=tree, input=files, stdout=file, stderr=subprocess.DEVNULL)
        return archive


def debian(folder, kernels, tests, program, options, before):
    """The image of a disk with a Debian, the kernels' modules, and the programs."""
    release = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    tree = folder / "debian"
    if before:
        run("cp", "-a", before, tree)
    else:
        say("making a Debian")
        run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(DEBIAN)}",
            release["VERSION_CODENAME"].strip('"'), tree)
    for kernel in kernels:
        shutil.copytree(kernel.modules, tree / "usr/lib/modules" / kernel.release, symlinks=True)
    for path in [*dict.fromkeys(path for _, _, path, _ in tests), program, program.parent / "deps/libcellpace_preload.so"]:
        copy(path, tree)
    for name in output("git", "ls-files", "crates", "bpf", cwd=REPOSITORY).splitlines():
        copy(REPOSITORY / name, tree)
    vm = tree / "vm"
    vm.mkdir()
    for name in ["tests.sh", "systemd.sh", "sends.py"]:
        shutil.copy(HERE / name, vm / name)
        (vm / name).chmod(0o755)
    (vm / "programs").write_text("".join(f"{name} {where} {path} {part}\n" for name, where, path, part in tests))
    (vm / "options").write_text(" ".join(options))
    (tree / "etc/hostname").write_text("vm\n")
    shutil.copy(program, tree / "usr/bin/cellpace")
    shutil.copy(program.parent / "deps/libcellpace_preload.so", tree / "usr/lib/libcellpace.so")
    systemd_check(tree)
    image = folder / "debian.img"
    run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, image, "2G")
    shutil.rmtree(tree)
    return image


def copy(path, tree):
    """To the place that it has here; links to folders are left out."""
    if path.is_dir():
        return
    there = tree / path.relative_to("/")
    there.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(path, there)


def systemd_check(tree):
    """A target of its own, after all that starts by itself."""
    units = tree / "etc/systemd/system"
    (units / "check.target").write_text(
        "[Unit]\nRequires=multi-user.target check.service\nAfter=multi-user.target\nAllowIsolate=yes\n"
    )
    (units / "check.service").write_text(
        "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\nExecStart=/vm/systemd.sh\n"
    )


def boot(kernel, image, words, seconds, keep=False):
    """Boots a machine until it turns itself off; what it said. With `keep` the disk changes."""
    told, console = kernel.folder / "told", kernel.folder / "console"
    for file in [told, console]:
        file.unlink(missing_ok=True)
    command = [
        "qemu-system-x86_64", *ACCELERATOR, "-m", "2048", "-nodefaults", "-display", "none",
        "-no-reboot", "-serial", f"file:{console}", "-serial", f"file:{told}",
        "-drive", f"file={image},if=virtio,format=raw,cache=unsafe" + ("" if keep else ",snapshot=on"),
        "-kernel", kernel.image, "-initrd", kernel.first,
        "-append", f"console=ttyS0 panic=-1 quiet {words}",
    ]
    try:
        subprocess.run(command, timeout=seconds, env={**os.environ, "TMPDIR": str(kernel.folder)})
        ended = True
    except subprocess.TimeoutExpired:
        ended = False
    said = told.read_text(errors="replace").replace("\r", "") if told.exists() else ""
    if not ended or not said:
        tail = console.read_text(errors="replace")[-2000:] if console.exists() else ""
        say(f"Linux {kernel.series} {'said nothing' if ended else 'did not end'}; its console: {tail}")
    return said


SECTION = re.compile(r"^---- (\S+) stdout ----\n(.*?)(?=^---- |^successes:|^failures:|^test result)", re.M | re.S)


def outcomes(said):
    """Per program: names of tests that passed, failed, and were skipped with the reason."""
    programs = {}
    for name, text in re.findall(r"^### begin (\S+)\n(.*?)(?=^### (?:begin|done)|\Z)", said, re.M | re.S):
        # Not the lines `test NAME ... ok`, into which libraries write.
        passed, failed = names(text, "successes"), names(text, "failures")
        skipped = {}
        for test, lines in SECTION.findall(text):
            why = next((line for line in lines.splitlines() if line.startswith("skipped")), None)
            if why and test in passed:
                skipped[test] = why
        ended = re.search(rf"^### end {re.escape(name)} (\d+)$", text, re.M)
        if not ended or (int(ended[1]) and not failed):
            failed.append(f"(ended with {ended[1]})" if ended else "(did not end)")
        programs[name] = [test for test in passed if test not in skipped], failed, skipped
    return programs


def names(text, title):
    """What the list of libtest's summary holds."""
    lists = re.findall(rf"^{title}:\n((?:    \S+\n)+)", text, re.M)
    return lists[-1].split() if lists else []


def main():
    global ACCELERATOR
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", action="append", help="only this series, such as 6.1")
    parser.add_argument("--suite", action="append", help="also kernels of this suite of Debian")
    parser.add_argument("--program", action="append", help="only this suite, such as cellpace/kernel")
    parser.add_argument("--option", action="append", default=[], help="for the test programs, such as --exact and then kernel::NAME")
    parser.add_argument("--no-systemd", action="store_true", help="without the check with systemd")
    parser.add_argument("--keep", metavar="FOLDER", help="write what the machines said here")
    parser.add_argument("--debian", metavar="FOLDER", help="a Debian that mmdebstrap made, not a new one")
    args = parser.parse_args()
    # Ends the machine that runs and removes the folder.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    why = obstacle()
    if why:
        say(f"kernels in virtual machines: skipped: {why}")
        return 0
    ACCELERATOR = accelerator()
    say("building the test programs")
    tests, program = build()
    missing = set(args.program or []) - {test[0] for test in tests}
    if missing:
        say(f"no test program {', '.join(sorted(missing))}, but {', '.join(test[0] for test in tests)}")
        return 1
    tests = [test for test in tests if not args.program or test[0] in args.program]
    with tempfile.TemporaryDirectory(prefix="cellpace-kernels-") as folder:
        folder = Path(folder)
        folder.chmod(0o755)
        kernels = []
        apt = other_suites(args.suite, folder)
        packages = offered(apt)
        if not packages:
            say("kernels in virtual machines: skipped: apt offers no linux-image-*-cloud-amd64")
            return 0
        missing = set(args.kernel or []) - set(packages)
        if missing:
            say(f"apt does not offer {', '.join(sorted(missing))}, but {', '.join(packages)}")
            return 1
        for series, package in packages.items():
            if not args.kernel or series in args.kernel:
                say(f"downloading {package}")
                kernels.append(Kernel(series, package, folder, apt))
        image = debian(folder, kernels, tests, program, args.option, args.debian)
        bad = False
        for kernel in kernels:
            say(f"Linux {kernel.release}")
            started = time.monotonic()
            said = boot(kernel, image, "next=/vm/tests.sh", 30 * MINUTE)
            if args.keep:
                Path(args.keep).mkdir(parents=True, exist_ok=True)
                (Path(args.keep) / f"{kernel.series}.txt").write_text(said)
            bad |= show(kernel, said, tests)
            say(f"{time.monotonic() - started:.0f} s")
        if not args.no_systemd:
            bad |= restarts(kernels[0], image, args.keep)
    return 1 if bad else 0


def restarts(kernel, image, keep):
    """Starts the same Debian three times, with the oldest kernel; whether something failed."""
    bad = False
    for step in ["first", "second", "third"]:
        say(f"systemd, {step} start")
        said = boot(kernel, image, f"systemd.unit=check.target step={step}", 5 * MINUTE, keep=True)
        if keep:
            (Path(keep) / f"systemd-{step}.txt").write_text(said)
        bad |= show(kernel, said, [(f"systemd/{step}",)])
    return bad


def show(kernel, said, tests):
    """Prints what became of each program; whether something failed."""
    found = outcomes(said)
    bad = False
    for name, *_ in tests:
        passed, failed, skipped = found.get(name, ([], ["(not run)"], {}))
        print(f"{kernel.series:6} {name:32} {len(passed):3} passed {len(failed):3} failed {len(skipped):3} skipped")
        for test in failed:
            print(f"       failed: {test}")
        for test, why in skipped.items():
            print(f"       {test}: {why}")
        bad |= bool(failed)
    return bad


if __name__ == "__main__":
    sys.exit(main())
