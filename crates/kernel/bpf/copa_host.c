/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * copa.h on the host, as pace_host.c is for pace.h: the same events, the parameters of Copa.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;
#define COPA_FN static
#define COPA_LOOP(n, turn, data)                                                                   \
	for (u32 number = 0; number < (n); number++)                                               \
		if (turn(number, data))                                                            \
			break;

#include "copa.h"

static struct copa copa;
static struct copa_settings set;

static void take(const char *kind, const u64 *is)
{
	struct copa_ack ack;

	switch (*kind) {
	case 'n':
		set = (struct copa_settings){ is[1], is[2], is[3], is[4],  is[5], is[6],
					      is[7], is[8], is[9], is[10], is[11] };
		return copa_begin(&copa, &set, is[0]);
	case 's':
		return copa_on_sent(&copa, &set, is[0], is[1]);
	case 'a':
		ack = (struct copa_ack){ is[0], is[10], is[8], is[9], is[3] ? is[12] : 0, is[11] };
		return copa_on_ack(&copa, &set, &ack);
	case 'l':
		return copa_on_loss(&copa, &set, is[0], is[5]);
	case 't':
		return copa_on_timeout(&copa, &set, is[0]);
	case 'u':
		return copa_on_spurious_timeout(&copa);
	case 'x':
		return copa_on_late_packet(&copa);
	case 'p':
		return copa_on_path_change(&copa, &set, is[0]);
	}
}

static void show(void)
{
	printf("%llu %llu %llu %u %u %llu %llu %llu %llu\n", (unsigned long long)copa.window,
	       (unsigned long long)copa.kept, (unsigned long long)copa.velocity, copa.slow_start,
	       copa.competitive, (unsigned long long)(copa.srtt / COPA_SRTT_PARTS),
	       (unsigned long long)copa_extreme(&copa.minimum),
	       (unsigned long long)copa_extreme(&copa.standing),
	       (unsigned long long)copa_pacing_rate(&copa, &set));
}

#include "host.h"
