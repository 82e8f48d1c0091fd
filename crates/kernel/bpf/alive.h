/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/* Whether the process that controls a socket is still there. */
#ifndef CELLPACE_ALIVE_H
#define CELLPACE_ALIVE_H

static inline bool has_heartbeat(const struct shared *shared, const struct control *control)
{
	u32 number = control->slot;
	const struct slot *slot;
	u64 now, beat;

	if (number >= SLOTS || shared->removed)
		return false;
	slot = &shared->slot[number];
	if (!control->owner || slot->owner != control->owner)
		return false;
	now = bpf_ktime_get_ns();
	beat = slot->beat;
	/* Another CPU may have read the clock for the heartbeat after us. */
	return beat > now ? beat - now < HEARTBEAT_NS : now - beat < HEARTBEAT_NS;
}

#endif
