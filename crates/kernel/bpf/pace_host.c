/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * pace.h on the host: shows that the law of the kernel is that of crates/cc/src/pace, also where BPF is not
 * permitted. host.h says what it reads.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#define PACE_FN static

#include "pace.h"

static struct pace pace;
static struct pace_settings set;

static void take(const char *kind, const u64 *is)
{
	struct pace_ack ack;
	struct pace_loss loss = { is[0], is[1], is[2], is[3], is[4] };

	switch (*kind) {
	case 'n':
		set = (struct pace_settings){ is[1], is[2], is[3], is[4], is[5], is[6], is[7], is[8] };
		return pace_begin(&pace, &set, is[0]);
	case 's':
		return pace_on_sent(&pace, &set, is[0], is[1]);
	case 'a':
		ack = (struct pace_ack){ is[0], is[1], is[2], is[4], is[5], is[6], is[3], is[7] };
		return pace_on_ack(&pace, &set, &ack);
	case 'l':
		return pace_on_loss(&pace, &set, &loss);
	case 'm':
		return pace_on_mark(&pace, &set, &loss);
	case 't':
		return pace_on_timeout(&pace, &set, is[0]);
	case 'u':
		return pace_on_spurious_timeout(&pace, &set, is[0]);
	case 'x':
		return pace_on_late_packet(&pace, is[0]);
	case 'p':
		return pace_on_path_change(&pace, is[0]);
	}
}

static void show(void)
{
	printf("%llu %llu %llu %llu %llu %llu %u %u %llu\n", (unsigned long long)pace.window,
	       (unsigned long long)pace.rate.rate,
	       (unsigned long long)(pace.headroom.factor / PACE_ONE),
	       (unsigned long long)pace.base.base, (unsigned long long)pace_reach(&pace),
	       (unsigned long long)pace.queue, pace.startup, pace.rival_window > 0,
	       (unsigned long long)pace_pacing_rate(&pace, &set));
}

#include "host.h"
