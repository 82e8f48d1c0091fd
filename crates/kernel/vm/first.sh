#!/bin/busybox sh
# The first program of a virtual machine: finds its disk and goes on from there. Modules are named in
# /modules in the order in which they need each other.
/bin/busybox mkdir -p /proc /dev /new
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
while read -r module; do
    /bin/busybox insmod "/lib/$module" || echo "vm: cannot load $module"
done </modules
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -b /dev/vda ] && break
    /bin/busybox sleep 1
done
/bin/busybox mount -t ext4 /dev/vda /new || /bin/busybox poweroff -f
next=/sbin/init
for word in $(/bin/busybox cat /proc/cmdline); do
    case $word in next=*) next=${word#next=} ;; esac
done
/bin/busybox umount /proc
/bin/busybox mount --move /dev /new/dev
exec /bin/busybox switch_root /new "$next"
