"""Runs the tests of controllers that the kernel has by itself on an emulated arm64, with a kernel of Debian.

Usage: ./dev kernels --arm64 [--kernel linux-image-6.12-cloud-arm64] [--suite bookworm]

The test program is cross-compiled. All that it takes is in the machine's first file system: there is no disk.
Where something is missing, it says so and exits with 0. The Debian is kept with the build, in the target folder.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernels import HERE, MINUTE, REPOSITORY, output, run, say, show

TARGET = "aarch64-unknown-linux-gnu"
COMPILER = "aarch64-linux-gnu-gcc"
TOOLS = ["qemu-system-aarch64", "mmdebstrap", "busybox", COMPILER, "clang", "cargo"]
LIBRARIES = ["ld-linux-aarch64.so.1", "libc.so.6", "libm.so.6", "libgcc_s.so.1"]
NAME = "cellpace-kernel/native"
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
ln -sf ttyAMA0 /dev/ttyS1
exec /vm/tests.sh
"""


def debian(kept, suite, kernel):
    """Packages for arm64, unpacked: none of their programs runs here."""
    root = kept / kernel
    if root.exists():
        return root
    say(f"unpacking Debian with {kernel}")
    kept.mkdir(parents=True, exist_ok=True)
    packages = ["libc6", "libgcc-s1", "libelf-dev", "zlib1g-dev", "busybox-static", kernel]
    run("mmdebstrap", "--quiet", "--variant=extract", "--architectures=arm64",
        f"--include={','.join(packages)}", suite, f"{root}.partial")
    Path(f"{root}.partial").rename(root)
    return root


def build(root, kept):
    """The tests of the crate, linked with the static libelf and zlib of that Debian."""
    for name in ["elf", "z"]:
        library = next(root.rglob(f"lib{name}.a"))
        (kept / f"lib{name}.so").write_text(f"INPUT({library})\n")
    names = {"CC_{}": COMPILER, "LIBBPF_SYS_LIBRARY_PATH_{}": kept}
    variables = {name.format(TARGET.replace("-", "_")): str(value) for name, value in names.items()}
    variables[f"CARGO_TARGET_{TARGET.replace('-', '_').upper()}_LINKER"] = COMPILER
    variables["LIBBPF_SYS_EXTRA_CFLAGS"] = f"-idirafter {root}/usr/include"
    lines = output(
        "cargo", "test", "--no-run", "--quiet", "--message-format=json", "--target", TARGET, "--package",
        "cellpace-kernel", "--features", "cellpace-kernel/install", "--test", "it",
        cwd=REPOSITORY, env={**os.environ, **variables},
    )
    return next(
        Path(message["executable"]) for message in map(json.loads, lines.splitlines()) if message.get("executable")
    )


def first_file_system(folder, root, program):
    tree = folder / "first"
    for name in ["bin", "dev", "lib", "proc", "run", "sys", "tmp", "vm"]:
        (tree / name).mkdir(parents=True)
    for name in LIBRARIES:
        shutil.copy(next(root.rglob(name)), tree / "lib" / name)
    shutil.copy(next(root.rglob("bin/busybox")), tree / "bin/busybox")
    shutil.copy(program, tree / "vm/it")
    shutil.copy(HERE / "tests.sh", tree / "vm/tests.sh")
    (tree / "vm/programs").write_text(f"{NAME} / /vm/it native::\n")
    (tree / "vm/options").write_text("")
    (tree / "init").write_text(INIT)
    for name in ["init", "vm/tests.sh", "bin/busybox", "vm/it"]:
        (tree / name).chmod(0o755)
    archive = folder / "first.cpio"
    files = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
    with open(archive, "w") as file:
        run("busybox", "cpio", "-o", "-H", "newc", cwd=tree, input=files, stdout=file, stderr=subprocess.DEVNULL)
    return archive


def boot(folder, image, archive):
    """What the machine said until it turned itself off."""
    told = folder / "told"
    command = [
        "qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a72", "-accel", "tcg", "-m", "1024",
        "-nodefaults", "-display", "none", "-no-reboot", "-serial", f"file:{told}", "-kernel", image,
        "-initrd", archive, "-append", "console=ttyAMA0 panic=-1 quiet",
    ]
    try:
        subprocess.run(command, timeout=15 * MINUTE)
    except subprocess.TimeoutExpired:
        say("the machine did not end")
    return told.read_text(errors="replace").replace("\r", "") if told.exists() else ""


class Machine:
    def __init__(self, image):
        self.series = image.name.removeprefix("vmlinuz-").split("+")[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="linux-image-6.12-cloud-arm64", metavar="PACKAGE")
    parser.add_argument("--suite", default="bookworm", help="a release of Debian that has this package")
    args = parser.parse_args()
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        say(f"arm64: skipped: not installed: {', '.join(missing)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="cellpace-arm64-") as folder:
        folder = Path(folder)
        kept = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "arm64"
        root = debian(kept, args.suite, args.kernel)
        say("building the test program for arm64")
        archive = first_file_system(folder, root, build(root, kept))
        image = max(root.glob("boot/vmlinuz-*"))
        say(f"Linux {image.name.removeprefix('vmlinuz-')}, emulated")
        said = boot(folder, image, archive)
        bad = show(Machine(image), said, [(NAME,)])
        if bad:
            print(said[-4000:])
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
