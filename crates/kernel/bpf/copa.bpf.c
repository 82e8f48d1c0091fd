// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Copa in the kernel: copa.h by the callbacks of law.h. It knows no marks, as its specification does not.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "native.h"

char _license[] SEC("license") = "GPL";

#define COPA_FN static __attribute__((noinline))
#define COPA_LOOP(n, turn, data) bpf_loop(n, turn, data, 0)
#include "copa.h"

struct law {
	struct copa is;
};

struct law_settings {
	struct copa_settings is;
};

static __always_inline void law_begin(struct law *law, const struct law_settings *set, u64 now,
				      u64 window)
{
	copa_begin(&law->is, &set->is, now);
	law->is.window = max_u64(law->is.window, window * COPA_PACKET);
}

static __always_inline void law_on_ack(struct law *law, const struct law_settings *set,
				       const struct law_ack *ack)
{
	struct copa_ack is = {
		.now = ack->now,
		.packets = ack->packets,
		.number = ack->stamp,
		.next = ack->delivered,
		.rtt = ack->rtt * 1000,
		.app_limited = ack->app_limited,
	};

	copa_on_ack(&law->is, &set->is, &is);
}

static __always_inline void law_on_loss(struct law *law, const struct law_settings *set,
					const struct law_loss *loss)
{
	copa_on_loss(&law->is, &set->is, loss->now, loss->packets);
}

static __always_inline void law_on_mark(struct law *law, const struct law_settings *set,
					const struct law_loss *mark)
{
}

static __always_inline void law_on_idle(struct law *law, const struct law_settings *set, u64 now)
{
	copa_on_sent(&law->is, &set->is, now, true);
}

static __always_inline void law_on_timeout(struct law *law, const struct law_settings *set, u64 now)
{
	copa_on_timeout(&law->is, &set->is, now);
}

static __always_inline void law_on_undo(struct law *law, const struct law_settings *set, u64 now)
{
	copa_on_spurious_timeout(&law->is);
}

static __always_inline u64 law_window(const struct law *law)
{
	return law->is.window / COPA_PACKET;
}

static __always_inline u64 law_pacing(const struct law *law, const struct law_settings *set)
{
	return copa_pacing_rate(&law->is, &set->is);
}

static __always_inline u64 law_base(const struct law *law)
{
	return copa_extreme(&law->is.minimum);
}

static __always_inline bool law_starts(const struct law *law)
{
	return law->is.slow_start;
}

static __always_inline u64 law_pause(const struct law_settings *set)
{
	return set->is.idle;
}

static __always_inline void law_show(const struct law *law, struct native_socket *is)
{
	const struct copa *copa = &law->is;
	u64 standing = copa->standing_shown;

	is->base_us = copa->minimum_shown;
	is->queue_us = sub_u64(standing, copa->minimum_shown);
	/* What it aims at is 1/(delta dq); what it has is a window in a standing RTT. */
	is->rate = standing ? copa->window / COPA_PACKET * 1000000 / standing * is->packet : 0;
	is->phase = copa->slow_start  ? NATIVE_SLOW_START :
		    copa->competitive ? NATIVE_RIVALS :
					NATIVE_STEADY;
}

#include "law.h"
