/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The guided random walk over a flat Markov table, in whole numbers (docs/mdi-format.md; MDI).
 *
 * The same text is compiled for BPF and, by a test, for the host. Who includes it defines first:
 *
 *   walk_u8 ... walk_s64   the types
 *   WALK_FN                what stands before each function that is not to be inlined: for BPF
 *                          nothing static, so that the verifier looks at each of them once only
 *   walk_header            the first words of the table
 *   walk_word(at)          the word number `at` of the table; 0 beyond its end
 *
 * Nothing here trusts the table: whatever words it has, no search goes on for ever and no access
 * leaves it. Windows are in 1/65536 packets, delays in microseconds.
 */
#ifndef CELLPACE_WALK_H
#define CELLPACE_WALK_H

#define WALK_PACKET (1u << 16)
#define WALK_MAX_WINDOW 0xffffffffu

/* Words of the header. */
enum {
	WALK_KIND = 2,
	WALK_D_MIN = 3,
	WALK_D_MAX = 4,
	WALK_D_STEP = 5,
	WALK_W_MIN = 6,
	WALK_W_MAX = 7,
	WALK_W_STEP = 8,
	WALK_EPOCH_US = 9,
	WALK_EMPTY = 10,
	WALK_OOR_FACTOR = 11,
	WALK_OOR_ADD = 12,
	WALK_LOSS_FACTOR = 13,
	WALK_DELAYS = 14,
	WALK_WINDOWS = 15,
	WALK_ORIGINS = 16,
	WALK_ENTRIES = 17,
	WALK_HEADER = 20,
};

/* Kinds of states, and what is done for transitions never seen. */
enum { WALK_ABSOLUTE, WALK_RELATIVE, WALK_LEVELS };
enum { WALK_NEAR, WALK_PAPER, WALK_CODE };

/* Instead of an origin, and of the delay of the last epoch. */
#define WALK_KEEP 0xffffffffu
#define WALK_COLLAPSE 0xfffffffeu
#define WALK_NONE 0xffffffffu

/* Where the arrays begin, in words. */
#define WALK_AT_LOG2 WALK_HEADER
#define WALK_AT_BLOCKS (WALK_AT_LOG2 + 257)
#define WALK_AT_ORIGINS (WALK_AT_BLOCKS + walk_header[WALK_DELAYS] + 1)
#define WALK_AT_BY_WINDOW (WALK_AT_ORIGINS + walk_header[WALK_ORIGINS])
#define WALK_AT_STARTS (WALK_AT_BY_WINDOW + walk_header[WALK_ORIGINS])
#define WALK_AT_ENTRIES (WALK_AT_STARTS + walk_header[WALK_ORIGINS] + 1)
#define WALK_AT_LIMITS (WALK_AT_ENTRIES + walk_header[WALK_ENTRIES])

/* Words of the table at most: 64 MiB of it. Searches halve, so they take 25 steps at most. */
#define WALK_MAX_WORDS (1u << 24)
#define WALK_HALVINGS 25

/* Where a walk is. */
struct walk {
	walk_u64 random;
	walk_u64 base_q8; /* levels: the least delay of late in 1/256 us; 0: none yet */
	walk_u32 w;	  /* the window now */
	walk_u32 w1;	  /* that of the epoch before */
	walk_u32 w2;	  /* relative: the one before that */
	walk_u32 d1;	  /* relative: the last two delays */
	walk_u32 d2;
	walk_u32 bin; /* absolute, levels: the delay of the last epoch, as an index */
};

static inline walk_u32 walk_min(walk_u32 a, walk_u32 b)
{
	return a < b ? a : b;
}

static inline walk_u32 walk_max(walk_u32 a, walk_u32 b)
{
	return a > b ? a : b;
}

/* log10 of a number in 1/65536; 0 for 0. */
WALK_FN walk_u32 walk_log10(walk_u32 x)
{
	walk_u64 log2;
	walk_u32 exponent = 31, fraction, low, high, i;

	if (!x)
		return 0;
	for (i = 16; i; i /= 2) {
		if (!(x >> (32 - i))) {
			x <<= i;
			exponent -= i;
		}
	}
	fraction = x & 0x7fffffff;
	low = walk_word(WALK_AT_LOG2 + (fraction >> 23));
	high = walk_word(WALK_AT_LOG2 + (fraction >> 23) + 1);
	log2 = ((walk_u64)exponent << 39) + ((walk_u64)low << 23) +
	       (walk_u64)(high - low) * (fraction & 0x7fffff);
	/* 1292913986 is log10(2) in 2^-32. */
	return ((log2 >> 15) * 1292913986 + (1ull << 39)) >> 40;
}

/* log10 of a window in packets: 315653 is log10(65536). */
static inline walk_u32 walk_log10_window(walk_u32 window)
{
	walk_u32 log = walk_log10(window);

	return log > 315653 ? log - 315653 : 0;
}

/*
 * (100 new / old - 100) log10(old) in thousandths, MDI section 3; `log` is log10(old). Thousandths
 * are returned as a signed number.
 */
WALK_FN walk_s64 walk_relative(walk_u32 new, walk_u32 old, walk_u32 log)
{
	walk_u64 ratio, size;

	if (!old)
		return 0;
	ratio = ((walk_u64)new * 10000 + old / 2) / old;
	if (ratio > 10000000)
		ratio = 10000000;
	size = ratio < 10000 ? 10000 - ratio : ratio - 10000;
	size = (size * log * 10 + (1 << 15)) >> 16;
	return ratio < 10000 ? -(walk_s64)size : (walk_s64)size;
}

static inline walk_s64 walk_delay_change(walk_u32 new, walk_u32 old)
{
	walk_u32 log;

	new = walk_max(new, 1000);
	old = walk_max(old, 1000);
	log = walk_log10(old);
	return walk_relative(new, old, log > 3 << 16 ? log - (3 << 16) : 0);
}

static inline walk_s64 walk_window_change(walk_u32 new, walk_u32 old)
{
	new = walk_max(new, WALK_PACKET);
	old = walk_max(old, WALK_PACKET);
	return walk_relative(new, old, walk_log10_window(old));
}

/* The window that differs from `base` by `by` thousandths of the measure: between half and twice. */
WALK_FN walk_u32 walk_stepped(walk_u32 base, walk_s64 by)
{
	walk_u64 size = by < 0 ? -by : by;
	walk_u64 percent = (walk_u64)(by < 0 ? 50 : 100) << 16;
	walk_u64 log, moved;

	base = walk_max(base, WALK_PACKET);
	/* The logarithm of 1 is 0, so 2 is taken there. */
	log = walk_log10_window(base == WALK_PACKET ? 2 * base : base);
	if (!size)
		return base;
	if (size > 1 << 30)
		size = 1 << 30;
	if (log && (size << 32) / (log * 1000) < percent)
		percent = (size << 32) / (log * 1000);
	moved = ((walk_u64)base * percent / 100 + (1 << 15)) >> 16;
	if (by < 0)
		return base > moved + WALK_PACKET ? base - moved : WALK_PACKET;
	return base + moved > WALK_MAX_WINDOW ? WALK_MAX_WINDOW : base + moved;
}

/* The nearest multiple of the step, half to even, taken into the range, as an index. */
WALK_FN walk_u32 walk_index(walk_s64 value, walk_s64 low, walk_s64 high, walk_u64 step)
{
	walk_u64 size = value < 0 ? -value : value;
	walk_u64 whole, rest;

	if (!step)
		return 0;
	whole = size / step;
	rest = size % step;
	if (2 * rest > step || (2 * rest == step && whole & 1))
		whole++;
	value = value < 0 ? -(walk_s64)(whole * step) : (walk_s64)(whole * step);
	if (value < low)
		value = low;
	if (value > high)
		value = high;
	return (walk_u64)(value - low) / step;
}

#define WALK_SIGNED(word) ((walk_s64)(walk_s32)walk_header[word])

static inline walk_u32 walk_d_index(walk_s64 value)
{
	return walk_index(value, WALK_SIGNED(WALK_D_MIN), WALK_SIGNED(WALK_D_MAX),
			  walk_header[WALK_D_STEP]);
}

static inline walk_u32 walk_w_index(walk_s64 value)
{
	return walk_index(value, WALK_SIGNED(WALK_W_MIN), WALK_SIGNED(WALK_W_MAX),
			  walk_header[WALK_W_STEP]);
}

static inline walk_u32 walk_clamped(walk_u32 packets)
{
	return walk_max(walk_header[WALK_W_MIN], walk_min(walk_header[WALK_W_MAX], packets));
}

/* xorshift64*, the upper 32 bits. */
static inline walk_u32 walk_bits(struct walk *walk)
{
	walk_u64 x = walk->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	walk->random = x;
	return x * 0x2545f4914f6cdd1dull >> 32;
}

/* The first of the ascending words number `first` to `end` that is above `value`, else `end`. */
WALK_FN walk_u32 walk_above(walk_u32 value, walk_u32 first, walk_u32 end)
{
	walk_u32 i, middle;

	for (i = 0; i < WALK_HALVINGS; i++) {
		if (first >= end)
			break;
		middle = first + (end - first) / 2;
		if (walk_word(middle) <= value)
			first = middle + 1;
		else
			end = middle;
	}
	return first;
}

/*
 * The origin with the window of `state` at the nearest delay, the larger of two; `first` and `end`
 * bound the delay's origins.
 */
WALK_FN walk_u32 walk_nearest(walk_u32 state, walk_u32 first, walk_u32 end)
{
	walk_u32 windows = walk_header[WALK_WINDOWS], lowest = first;
	walk_u32 i, middle, origin, other, up = WALK_KEEP, up_by = 0, group, window;

	if (!windows)
		return WALK_KEEP;
	group = state / windows;
	window = state % windows;
	for (i = 0; i < WALK_HALVINGS; i++) {
		if (first >= end)
			break;
		middle = first + (end - first) / 2;
		origin = walk_word(WALK_AT_BY_WINDOW + middle);
		other = walk_word(WALK_AT_ORIGINS + origin);
		if (other % windows < window ||
		    (other % windows == window && other / windows <= group)) {
			first = middle + 1;
		} else {
			end = middle;
			/* The last of these is the next one above. */
			up = other % windows == window ? origin : WALK_KEEP;
			up_by = other / windows - group;
		}
	}
	if (first <= lowest)
		return up;
	origin = walk_word(WALK_AT_BY_WINDOW + first - 1);
	other = walk_word(WALK_AT_ORIGINS + origin);
	if (other % windows != window)
		return up;
	return up != WALK_KEEP && up_by <= group - other / windows ? up : origin;
}

/* Where to draw from, or WALK_KEEP or WALK_COLLAPSE (MDI section 7). */
WALK_FN walk_u32 walk_find(walk_u32 state, walk_u32 delay)
{
	walk_u32 windows = walk_header[WALK_WINDOWS];
	walk_u32 first, end, after, other, group;

	if (!windows)
		return WALK_KEEP;
	group = state / windows;
	first = walk_word(WALK_AT_BLOCKS + delay);
	end = walk_word(WALK_AT_BLOCKS + delay + 1);
	after = walk_above(state, WALK_AT_ORIGINS + first, WALK_AT_ORIGINS + end) - WALK_AT_ORIGINS;
	if (after > first) {
		other = walk_word(WALK_AT_ORIGINS + after - 1);
		if (walk_header[WALK_EMPTY] == WALK_CODE)
			return other == state || other ? after - 1 : WALK_COLLAPSE;
		if (other / windows == group)
			return after - 1;
	}
	if (walk_header[WALK_EMPTY] == WALK_CODE)
		return WALK_COLLAPSE;
	if (walk_header[WALK_EMPTY] == WALK_PAPER)
		return WALK_KEEP;
	if (after < end && walk_word(WALK_AT_ORIGINS + after) / windows == group)
		return after;
	return walk_nearest(state, first, end);
}

/* The index of the window that 32 random bits choose among an origin's. */
WALK_FN walk_u32 walk_drawn(walk_u32 origin, walk_u32 bits)
{
	walk_u32 start = walk_word(WALK_AT_STARTS + origin);
	walk_u32 end = walk_word(WALK_AT_STARTS + origin + 1);
	walk_u32 found = walk_above(bits, WALK_AT_LIMITS + start, WALK_AT_LIMITS + end);

	found -= WALK_AT_LIMITS;
	return walk_word(WALK_AT_ENTRIES + (found < end ? found : end - 1));
}

static inline walk_s64 walk_drawn_change(struct walk *walk, walk_u32 origin)
{
	walk_u64 index = walk_drawn(origin, walk_bits(walk));

	return WALK_SIGNED(WALK_W_MIN) + (walk_s64)(index * walk_header[WALK_W_STEP]);
}

static inline void walk_absolute(struct walk *walk, walk_u32 delay_us)
{
	walk_u32 low = walk_header[WALK_D_MIN], step = walk_header[WALK_D_STEP];
	walk_u32 delay = walk_max(low, walk_min(walk_header[WALK_D_MAX], delay_us / 1000));
	walk_u32 now = step ? (delay - low) / step : 0;
	/* The first delay is used at once. */
	walk_u32 before = walk->bin == WALK_NONE ? now : walk->bin;
	walk_u32 state = before * walk_header[WALK_WINDOWS];
	walk_u32 found;

	state += (walk->w >> 16) - walk_header[WALK_W_MIN];
	found = walk_find(state, now);
	walk->bin = now;
	if (found == WALK_COLLAPSE)
		walk->w = walk_clamped(1) << 16;
	else if (found != WALK_KEEP)
		walk->w = (walk_header[WALK_W_MIN] + walk_drawn(found, walk_bits(walk))) << 16;
}

/* MDI section 6, steps 3 to 7. */
static inline void walk_relative_states(struct walk *walk, walk_u32 delay_us, int acked)
{
	walk_u32 found, row, w;
	walk_s64 by;

	if (!walk->d1)
		walk->d1 = walk->d2 = delay_us;
	by = walk_delay_change(delay_us, walk->d1);
	if (by > WALK_SIGNED(WALK_D_MAX)) {
		walk->w = (walk_u64)walk->w * walk_header[WALK_OOR_FACTOR] >> 16;
	} else if (by < WALK_SIGNED(WALK_D_MIN)) {
		w = walk->w + walk_header[WALK_OOR_ADD];
		walk->w = w < walk->w ? WALK_MAX_WINDOW : w;
	} else {
		row = walk_d_index(walk_delay_change(walk->d1, walk->d2));
		row = row * walk_header[WALK_WINDOWS] +
		      walk_w_index(walk_window_change(walk->w1, walk->w2));
		found = walk_find(row, walk_d_index(by));
		if (found == WALK_COLLAPSE)
			walk->w = WALK_PACKET;
		else if (found == WALK_KEEP)
			walk->w = walk->w1;
		else
			walk->w = walk_stepped(walk->w1, walk_drawn_change(walk, found));
	}
	walk->w = walk_max(walk->w, WALK_PACKET);
	if (acked) {
		walk->d2 = walk->d1;
		walk->d1 = delay_us;
	}
	walk->w2 = walk->w1;
	walk->w1 = walk->w;
}

static inline void walk_levels(struct walk *walk, walk_u32 delay_us, int acked)
{
	walk_u64 delay_q8 = (walk_u64)walk_max(delay_us, 1000) << 8, base_q8 = walk->base_q8;
	walk_u32 base, above, log, now, before, found;

	/* The base takes smaller delays at once and rises by 2^-15 per epoch. */
	base_q8 += base_q8 >> 15;
	if (acked && (!base_q8 || delay_q8 < base_q8))
		base_q8 = delay_q8;
	walk->base_q8 = base_q8;
	base = base_q8 >> 40 ? 0xffffffff : base_q8 >> 8;
	log = walk_log10(base);
	above = walk_log10(walk_max(delay_us, base));
	above = above > log ? above - log : 0;
	now = walk_d_index(((walk_u64)above * 1000 + (1 << 15)) >> 16);
	before = walk->bin == WALK_NONE ? now : walk->bin;
	found = walk_find(before * walk_header[WALK_WINDOWS] +
				  walk_w_index(walk_window_change(walk->w, walk->w1)),
			  now);
	walk->bin = now;
	walk->w1 = walk->w;
	if (found == WALK_COLLAPSE)
		walk->w = WALK_PACKET;
	else if (found != WALK_KEEP)
		walk->w = walk_stepped(walk->w, walk_drawn_change(walk, found));
}

/* A walk at its beginning: ten packets. */
static inline void walk_begin(struct walk *walk, walk_u64 seed)
{
	walk_u32 w = 10 << 16;

	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		w = walk_clamped(10) << 16;
	walk->random = seed ? seed : 0x9e3779b97f4a7c15ull;
	walk->base_q8 = 0;
	walk->w = walk->w1 = walk->w2 = w;
	walk->d1 = walk->d2 = 0;
	walk->bin = WALK_NONE;
}

/*
 * One epoch: the largest RTT acked in it, or, without an ack, the larger of the last such delay and
 * the time since the last ack. The new window is in `walk->w`.
 */
WALK_FN int walk_step(struct walk *walk, walk_u32 delay_us, walk_u32 acked)
{
	if (!walk)
		return -1;
	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		walk_absolute(walk, delay_us);
	else if (walk_header[WALK_KIND] == WALK_RELATIVE)
		walk_relative_states(walk, delay_us, acked);
	else
		walk_levels(walk, delay_us, acked);
	return 0;
}

/*
 * Packets that may leave after an epoch (MDI section 6, step 6): `credit` packets were allowed before
 * and have not left, `in_flight` packets are not acknowledged yet, and a round trip has `epochs` epochs.
 */
static inline walk_u32 walk_release(const struct walk *walk, walk_u32 credit, walk_u32 in_flight,
				    walk_u32 epochs)
{
	walk_u32 window = walk->w >> 16;
	walk_u64 allowed = credit, kept = in_flight;

	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		return window;
	if (epochs > 1)
		kept = kept * (epochs - 2) / (epochs - 1); /* Eq. 5, Verus */
	if (window > kept)
		allowed += window - kept;
	return allowed < window ? allowed : window;
}

/* After a loss, or, with `forget`, a timeout. */
WALK_FN int walk_set(struct walk *walk, walk_u32 window, walk_u32 forget)
{
	if (!walk)
		return -1;
	if (walk_header[WALK_KIND] == WALK_ABSOLUTE) {
		walk->w = walk_clamped(window >> 16) << 16;
		return 0;
	}
	window = walk_max(window, WALK_PACKET);
	if (walk_header[WALK_KIND] == WALK_LEVELS) {
		walk->w1 = forget ? window : walk->w;
	} else {
		walk->w1 = window;
		if (forget)
			walk->w2 = window;
	}
	walk->w = window;
	return 0;
}

#endif
