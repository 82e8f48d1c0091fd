/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * pace.h on the host: goes through events from standard input, a line each, and prints the state after
 * each. Shows that the law of the kernel is that of crates/cc/src/pace, also where BPF is not permitted.
 *
 *   n START MSS EXTRA INITIAL MIN MEMORY EMPTY LEARNING SEARCH   another flow begins
 *   s NOW IDLE                                    a packet leaves; whether none was in flight
 *   a NOW BYTES NEWEST HAS SENT_AT RTT STAMP APP  an acknowledgment
 *   l NOW BYTES NEWEST NEXT RTT                   losses
 *   m NOW PACKETS NEWEST NEXT RTT                 marks
 *   t NOW    a timeout
 *   u NOW    it was none
 *   x BYTES  a lost packet has arrived after all
 *   p NOW    another path
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

int main(void)
{
	char line[512], kind[2];
	unsigned long long v[9];

	while (fgets(line, sizeof(line), stdin)) {
		u64 values[9] = { 0 };
		int count = sscanf(line, " %1s %llu %llu %llu %llu %llu %llu %llu %llu %llu", kind, &v[0],
				   &v[1], &v[2], &v[3], &v[4], &v[5], &v[6], &v[7], &v[8]);

		if (count < 2)
			return 2;
		for (int i = 0; i + 1 < count; i++)
			values[i] = v[i];
		take(kind, values);
		printf("%llu %llu %llu %llu %llu %llu %u %u %llu\n", (unsigned long long)pace.window,
		       (unsigned long long)pace.rate.rate,
		       (unsigned long long)(pace.headroom.factor / PACE_ONE),
		       (unsigned long long)pace.base.base, (unsigned long long)pace_reach(&pace),
		       (unsigned long long)pace.queue, pace.startup, pace.rival_window > 0,
		       (unsigned long long)pace_pacing_rate(&pace, &set));
	}
	return 0;
}
