/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The main function of laws on the host: goes through events from standard input, a line each, and shows the state
 * after each. Numbers stand in the order of these names; each law takes those that it knows.
 *
 *   n START MSS PARAMETERS...          another flow begins
 *   s NOW IDLE                         a packet leaves; whether none was in flight
 *   a NOW BYTES STAMP HAS SENT_AT RTT STAMP_OF_FASTEST APP_LIMITED NUMBER NEXT PACKETS NEWEST_APP_LIMITED
 *    RTT_NS
 *                                      an acknowledgment; stamps: bytes delivered when a packet left
 *   l NOW BYTES NEWEST NEXT RTT PACKETS  losses
 *   m NOW PACKETS NEWEST NEXT RTT      marks
 *   t NOW                              a timeout
 *   u NOW                              it was none
 *   x BYTES                            a lost packet has arrived after all
 *   p NOW                              another path
 */
#include <stdlib.h>

#define HOST_NUMBERS 13

int main(void)
{
	char line[512];

	while (fgets(line, sizeof(line), stdin)) {
		u64 values[HOST_NUMBERS] = { 0 };
		char *at = line + 1;

		for (int i = 0; i < HOST_NUMBERS; i++)
			values[i] = strtoull(at, &at, 10);
		take(line, values);
		show();
	}
	return 0;
}
