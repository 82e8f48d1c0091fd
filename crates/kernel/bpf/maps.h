/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Maps that several programs have together: the loader gives all of them the kernel driver's. */
#ifndef CELLPACE_MAPS_H
#define CELLPACE_MAPS_H

/* What sockets shall do, by their cookies. */
struct controls_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CONTROLS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct control);
};

/*
 * Sockets whose packets leave with PSH, so that their receivers acknowledge each at once, and when
 * the last did, in ns: bpf/prompt.bpf.c writes it.
 */
struct prompted_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_CONTROLS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u64);
};

#endif
