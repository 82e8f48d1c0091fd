/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * walk.h on the host: reads a flat table (first argument) and walks through events from standard
 * input, a line each: `e DELAY ACKED SENT IN_FLIGHT EPOCHS` or `s WINDOW FORGET 0 0 0`. Prints the
 * window and the credit after each. The second argument is the seed. Shows that the walk of the kernel is the walk of crates/mdi, also where BPF
 * is not permitted.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint32_t walk_u32;
typedef uint64_t walk_u64;
typedef int32_t walk_s32;
typedef int64_t walk_s64;
#define WALK_FN static

static walk_u32 *walk_header;
static walk_u32 words;

static walk_u32 walk_word(walk_u32 at)
{
	return at < words ? walk_header[at] : 0;
}

#include "walk.h"

int main(int argc, char **argv)
{
	struct walk walk;
	unsigned long first, second, sent, in_flight, epochs;
	walk_u32 credit = 0;
	FILE *file;
	char kind;

	if (argc != 3 || !(file = fopen(argv[1], "rb")))
		return 2;
	walk_header = malloc(4 * (size_t)WALK_MAX_WORDS);
	if (!walk_header)
		return 2;
	words = fread(walk_header, 4, WALK_MAX_WORDS, file);
	fclose(file);
	if (words < WALK_HEADER)
		return 2;
	walk_begin(&walk, strtoull(argv[2], NULL, 10));
	while (scanf(" %c %lu %lu %lu %lu %lu", &kind, &first, &second, &sent, &in_flight, &epochs) == 6) {
		if (kind == 'e') {
			walk_step(&walk, first, second);
			credit = walk_release(&walk, credit - sent, in_flight, epochs);
		} else {
			walk_set(&walk, first, second);
		}
		printf("%u %u\n", walk.w, credit);
	}
	return 0;
}
