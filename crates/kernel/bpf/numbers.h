/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/* Whole numbers as the laws in Rust compute with them: u64, whose sums and differences end at the range. */
#ifndef CELLPACE_NUMBERS_H
#define CELLPACE_NUMBERS_H

static inline u64 min_u64(u64 a, u64 b)
{
	return a < b ? a : b;
}

static inline u64 max_u64(u64 a, u64 b)
{
	return a > b ? a : b;
}

/* a - b, at least 0. */
static inline u64 sub_u64(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* a + b, at most all bits set. */
static inline u64 add_u64(u64 a, u64 b)
{
	return a + b < a ? ~0ull : a + b;
}

#endif
