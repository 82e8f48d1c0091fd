#!/bin/bash
# Run by systemd once the system is up, in each of three starts of the same system: the first installs
# the driver for good, the second finds it and removes it, the third has nothing of it. What is found is
# told on the second serial port, as test programs tell it; then the machine turns itself off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
UNIT=cellpace-kernel.service
MOUNT=run-cellpace-bpf.mount
CONTROL=/proc/sys/net/ipv4/tcp_available_congestion_control

exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 raw

passed= failed=
# check WHAT COMMAND...: whether a command succeeds, and what it says when it does not.
check() {
    name=$1
    shift
    if said=$("$@" 2>&1); then
        passed="$passed    $name\n"
    else
        echo "$name: $* said: $said"
        failed="$failed    $name\n"
    fi
}
not() { ! "$@"; }
status() { cellpace kernel status --json -; }
uses() { [ "$(runuser -u "$1" -- cellpace kernel status --json - | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["uses"])')" = "$2" ]; }
is_active() { [ "$(systemctl is-active $UNIT)" = "$1" ]; }
none_failed() { said=$(systemctl --failed --plain --no-legend); echo "$said"; [ -z "$said" ]; }
no_pins() { [ ! -e /run/cellpace/bpf/cellpace ]; }
forgotten() { [ "$(systemctl show -P LoadState $UNIT)" = not-found ]; }
# A program of a user, whose own end of a connection is under control.
runs() { runuser -u "$1" -- cellpace run --driver kernel --cc copa --json /tmp/flows."$1" -- \
    python3 /vm/sends.py && grep -q '"driver":"kernel"' /tmp/flows."$1"; }
nowhere() { found=$(find /etc/systemd -name $UNIT -o -name $MOUNT); echo "$found"; [ -z "$found" ]; }
early() { systemctl show -P Before $UNIT | grep -qw network.target; }

first() {
    check not_there_before no_pins
    groupadd cellpace && useradd -m -G cellpace alice && useradd -m bob
    check installed_for_good cellpace kernel install --persist
    check the_unit_is_enabled systemctl is-enabled $UNIT
    check the_unit_works is_active active
    check the_same_again cellpace kernel install --persist
    check a_restart_of_the_unit systemctl restart $UNIT
}

second() {
    check it_is_installed grep -qw cellpace $CONTROL
    check the_unit_has_run is_active active
    check before_programs_that_use_the_network early
    check nothing_failed none_failed
    check who_is_in_the_group_uses_it uses alice kernel
    check who_is_not_uses_the_gate uses bob gate
    check a_program_of_the_group_runs_with_it runs alice
    check a_program_of_others_does_not not runs bob
    check removed cellpace kernel remove
    check no_pins_are_left no_pins
    check no_unit_is_left test ! -e /etc/systemd/system/$UNIT -a ! -e /etc/systemd/system/$MOUNT
    check systemd_has_forgotten_it forgotten
}

third() {
    check nothing_is_installed not grep -qw cellpace $CONTROL
    check there_are_no_pins no_pins
    check there_is_no_unit forgotten
    check nothing_wants_it nowhere
    check nothing_failed none_failed
    check nothing_to_remove not cellpace kernel remove
    check all_use_the_gate uses alice gate
}

step=first
for word in $(cat /proc/cmdline); do
    case $word in step=*) step=${word#step=} ;; esac
done
echo "### kernel $(uname -r)"
echo "### begin systemd/$step"
$step
status
printf 'successes:\n%bfailures:\n%b' "$passed" "$failed"
echo "### end systemd/$step $([ -z "$failed" ]; echo $?)"
echo "### done"
stty -F /dev/ttyS1 sane
systemctl --no-block poweroff
