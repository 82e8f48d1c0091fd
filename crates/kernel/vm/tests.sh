#!/bin/sh
# Process 1 of a virtual machine: runs each test program that /vm/programs names (a name, a folder to run
# in, the program, which of its tests), tells what came out on the second serial port, and turns the machine off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /dev/shm
mount -t tmpfs -o mode=755 tmp /run
mount -t cgroup2 cgroup /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
ip link set lo up
# Its device is there once the module is.
modprobe tun
exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 raw
echo "### kernel $(uname -r)"
while read -r name folder program part; do
    echo "### begin $name"
    cd "$folder" || exit
    # shellcheck disable=SC2046,SC2086
    timeout -k 10 "${TEST_SECONDS:-900}" "$program" --show-output $part $(cat /vm/options)
    echo "### end $name $?"
done </vm/programs
echo "### done"
stty -F /dev/ttyS1 sane
sync
echo o >/proc/sysrq-trigger
sleep 1000
