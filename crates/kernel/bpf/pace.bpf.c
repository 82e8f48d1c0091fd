// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Pace in the kernel: pace.h by the callbacks of law.h.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "native.h"

char _license[] SEC("license") = "GPL";

#define PACE_FN static __attribute__((noinline))
#include "pace.h"

struct law {
	struct pace is;
};

struct law_settings {
	struct pace_settings is;
};

static __always_inline void law_begin(struct law *law, const struct law_settings *set, u64 now,
				      u64 window)
{
	pace_begin(&law->is, &set->is, now);
	law->is.window = max_u64(law->is.window, window * PACE_ONE);
}

static __always_inline void law_on_ack(struct law *law, const struct law_settings *set,
				       const struct law_ack *ack)
{
	struct pace_ack is = {
		.now = ack->now,
		.bytes = ack->packets,
		.newest = ack->stamp,
		.sent_at = sub_u64(ack->now, ack->rtt * 1000),
		.rtt = ack->rtt,
		.stamp = ack->stamp,
		.has_packet = ack->rtt > 0,
		.app_limited = ack->app_limited,
	};

	pace_on_ack(&law->is, &set->is, &is);
}

static __always_inline struct pace_loss loss_of(const struct law_loss *loss)
{
	struct pace_loss is = { loss->now, loss->packets, loss->newest, loss->next, loss->rtt };

	return is;
}

static __always_inline void law_on_loss(struct law *law, const struct law_settings *set,
					const struct law_loss *loss)
{
	struct pace_loss is = loss_of(loss);

	pace_on_loss(&law->is, &set->is, &is);
}

static __always_inline void law_on_mark(struct law *law, const struct law_settings *set,
					const struct law_loss *mark)
{
	struct pace_loss is = loss_of(mark);

	pace_on_mark(&law->is, &set->is, &is);
}

static __always_inline void law_on_idle(struct law *law, const struct law_settings *set, u64 now)
{
	pace_on_sent(&law->is, &set->is, now, true);
}

static __always_inline void law_on_timeout(struct law *law, const struct law_settings *set, u64 now)
{
	pace_on_timeout(&law->is, &set->is, now);
}

static __always_inline void law_on_undo(struct law *law, const struct law_settings *set, u64 now)
{
	pace_on_spurious_timeout(&law->is, &set->is, now);
}

static __always_inline u64 law_window(const struct law *law)
{
	return law->is.window / PACE_ONE;
}

static __always_inline u64 law_pacing(const struct law *law, const struct law_settings *set)
{
	return pace_pacing_rate(&law->is, &set->is);
}

static __always_inline u64 law_base(const struct law *law)
{
	return law->is.base.base;
}

static __always_inline bool law_starts(const struct law *law)
{
	return law->is.startup;
}

static __always_inline u64 law_pause(const struct law_settings *set)
{
	return PACE_PAUSE;
}

static __always_inline void law_show(const struct law *law, struct native_socket *is)
{
	const struct pace *pace = &law->is;

	is->base_us = pace->base.base;
	is->queue_us = pace->queue;
	is->rate = pace->rate.rate / PACE_ONE * is->packet;
	is->phase = pace->startup	? NATIVE_SLOW_START :
		    pace->base.searching ? NATIVE_SEARCH :
		    pace->rival_window	? NATIVE_RIVALS :
					  NATIVE_STEADY;
}

#include "law.h"
