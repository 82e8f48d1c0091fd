/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The law of Pace (docs/spec/pace.md) in whole numbers, step by step as crates/cc/src/pace does it;
 * sections are those of the specification, constants are explained in Rust. pace_host.c shows that both
 * are in the same state after every event.
 *
 * Points in time are in nanoseconds, RTTs in microseconds; packets, rates (packets per second) and ratios
 * have 16 bits behind the point.
 *
 * The file that includes this has u32, u64, s64 and bool, and PACE_FN for functions.
 */
#ifndef CELLPACE_PACE_H
#define CELLPACE_PACE_H

#include "numbers.h"

#define PACE_ONE 65536ull
#define PACE_MAX_WINDOW (PACE_ONE << 20)
#define PACE_SECOND 1000000ull
#define PACE_NONE (~0ull)
#define PACE_NO_CAP (~0ull)

/* mod.rs */
#define PACE_NOTHING 1000ull
#define PACE_STARTUP_EXIT 4000ull
#define PACE_STARTUP_RUN 8ull
#define PACE_STARTUP_LOSSES (3 * PACE_ONE)
#define PACE_GAIN 5ull
#define PACE_FAST_GAIN 8ull
#define PACE_SEARCH_LEAST (4 * PACE_ONE)
#define PACE_RIVAL_INCREASE 2ull
#define PACE_RIVAL_CUT 7ull
#define PACE_PAUSE 1000000000ull

/* rate.rs */
#define PACE_MAX_SILENCE 80000ull
#define PACE_MAX_RATE (PACE_ONE << 24)

/* headroom.rs */
#define PACE_FACTOR_ONE (1ull << 32)
#define PACE_SHARE_ONE (1ull << 24)
#define PACE_FACTOR_LEAST (PACE_FACTOR_ONE * 3 / 10)
#define PACE_FACTOR_MOST (PACE_FACTOR_ONE * 6)
#define PACE_FACTOR_INITIAL (PACE_FACTOR_ONE * 11 / 10)
#define PACE_BOOST_PARTS 2
#define PACE_BOOST_DECAY_PARTS 10
#define PACE_HEADROOM_STRETCH (20 * PACE_ONE)
#define PACE_VALLEY_PARTS 4
#define PACE_LOSS_PARTS 2
#define PACE_MOST_PACKETS (PACE_ONE << 12)

/* base.rs */
#define PACE_NEAR_PARTS 64
#define PACE_NEAR_LEAST 100
#define PACE_RAISED_FOR 30000000000ull
#define PACE_SAMPLES_NEEDED 2
#define PACE_SAMPLES_ENOUGH 4
#define PACE_MAX_WAIT 1000000ull
#define PACE_STRETCH_ROUNDS 8
#define PACE_STRETCH_LEAST 300000ull
#define PACE_STANDING 4000ull
#define PACE_RIVALS 4000ull
#define PACE_JOIN_PARTS 25

/* elasticity.rs */
#define PACE_STEP (5 * PACE_ONE / 64)
#define PACE_JUMP_PARTS 32
#define PACE_JUMP_LEAST 500ull
#define PACE_JUMP_PACKETS 2
#define PACE_SERIES_FROM 1000000000ull
#define PACE_SERIES_FOR 10000000000ull
#define PACE_MORE ((s64)(5 * PACE_ONE / 16))
#define PACE_LESS ((s64)(5 * PACE_ONE / 32))
#define PACE_SURELY ((s64)(3 * PACE_ONE / 8))
#define PACE_MORE_PROVEN ((s64)(5 * PACE_ONE / 64))
#define PACE_LESS_PROVEN ((s64)(PACE_ONE / 64))
#define PACE_ANSWER_MORE 24
#define PACE_ANSWER_LESS 3
#define PACE_NOISY (5 * PACE_ONE / 4)
#define PACE_STANDS_PARTS 4
#define PACE_STANDS_FOR 300000000ull
#define PACE_MOST_ELASTICITY (4 * PACE_ONE)
#define PACE_SURE ((s64)(PACE_ONE / 2))
#define PACE_REACH_PARTS 16
#define PACE_REACH_BASES 4
#define PACE_REACH_JUMPS 2
#define PACE_AT_BASE_PARTS 32
#define PACE_REST_LEAST 2000000000ull
#define PACE_REST_MOST 8000000000ull

/* params.rs, in the units of the law */
struct pace_settings {
	u64 mss; /* bytes of a full packet; 1 where sizes are in packets */
	u64 extra;
	u64 initial_window;
	u64 min_window;
	u64 memory; /* us */
	u64 empty; /* with 24 bits behind the point */
	u64 learning;
	u64 search; /* ns */
};

/* TwoMinima of units.rs: the smallest value of the period that runs, and of the one before. */
struct pace_minima {
	u64 since;
	u64 now;
	u64 before;
};

struct pace_range {
	u64 low;
	u64 high;
};

struct pace_rate {
	u64 rate;
	u64 running;
	u64 at;
	u64 has_at;
	u64 packet_time; /* us that a packet takes at this rate; 0: not known */
};

struct pace_headroom {
	u64 factor; /* with 32 bits behind the point */
	u64 run;
	u64 boost;
	u64 valley;
	u64 progress;
};

struct pace_base {
	u64 base;
	u64 floor;
	u64 raised_at;
	u64 seen_at;
	u64 searched_at;
	u64 search_from;
	u64 search_until;
	struct pace_range search_range;
	u32 search_samples;
	u32 searching;
	u64 settles_at;
	u32 rivals;
	u32 suspected;
	u64 suspect;
	u64 stretch_since;
	struct pace_range stretch;
	struct pace_minima lately;
};

struct pace_elasticity {
	u64 round;
	u64 began_at;
	u64 tally_delivered;
	u64 tally_flights;
	u32 tally_valid;
	u32 has_first;
	u64 first;
	u64 jump_sent_at;
	u64 jump_rtt;
	u64 jump_first_at;
	u64 jump_last_at;
	u32 has_jump_before;
	u32 has_jump;
	struct pace_minima jump_largest;
	u64 pairs;
	s64 mean;
	u64 variance;
	u64 more;
	u64 surely;
	u64 less;
	u64 rtt; /* with 6 bits behind the point */
	struct pace_minima low;
	u64 reach;
	u64 proven;
	u64 rest_until;
	u64 rest_length;
	u64 rest_rate;
};

struct pace {
	u64 window;
	struct pace_rate rate;
	struct pace_headroom headroom;
	struct pace_base base;
	u64 base_rate;
	struct pace_elasticity elasticity;
	u64 queued_run;
	u64 cap;
	u64 rival_window;
	u64 peak;
	u64 reduced_at;
	u64 delivered; /* bytes */
	u64 queue; /* us */
	u64 last_ack_at;
	u64 before_timeout;
	u32 has_before_timeout;
	u32 startup;
};

/* What an acknowledgment brings. */
struct pace_ack {
	u64 now;
	u64 bytes;
	u64 newest; /* of all its packets: the largest count of delivered bytes when it was sent */
	/* The packet with the shortest RTT, if there is one. */
	u64 sent_at;
	u64 rtt; /* us, at least 1 */
	u64 stamp; /* bytes delivered when it was sent */
	u32 has_packet;
	u32 app_limited;
};

/* What is lost or marked. */
struct pace_loss {
	u64 now;
	u64 amount; /* lost bytes, or marked packets */
	u64 newest; /* the number of the newest of them, */
	u64 next;   /* and of the next packet: anything that counts up with packets sent */
	u64 rtt;    /* the latest one, us */
};

struct pace_sample {
	u64 sent_at;
	u64 rtt;
	u64 delivered_before;
	u64 delivered;
	u64 flight;
	u64 base;
	u64 packet;
	u64 rate;
	u64 valid;
};

static inline u64 pace_micros_since(u64 now, u64 then)
{
	return sub_u64(now, then) / 1000;
}

static inline void pace_minima_begin(struct pace_minima *minima, u64 since)
{
	minima->since = since;
	minima->now = PACE_NONE;
	minima->before = PACE_NONE;
}

static inline u64 pace_minima_push(struct pace_minima *minima, u64 now, u64 value, u64 period)
{
	if (sub_u64(now, minima->since) > period) {
		minima->since = now;
		minima->before = minima->now;
		minima->now = PACE_NONE;
	}
	minima->now = min_u64(minima->now, value);
	return minima->before;
}

static inline u64 pace_minima_smallest(const struct pace_minima *minima)
{
	return min_u64(minima->now, minima->before);
}

static inline void pace_range_begin(struct pace_range *range)
{
	range->low = PACE_NONE;
	range->high = 0;
}

static inline void pace_range_take(struct pace_range *range, u64 value)
{
	range->low = min_u64(range->low, value);
	range->high = max_u64(range->high, value);
}

static inline u64 pace_range_width(const struct pace_range *range)
{
	return sub_u64(range->high, range->low);
}

/* Section 3. */

/* Written down, since a division costs most of what else an ack does. */
static inline void pace_rate_set(struct pace_rate *rate, u64 to)
{
	if (rate->rate == to)
		return;
	rate->rate = to;
	rate->packet_time = to ? PACE_ONE * PACE_SECOND / to : 0;
}

/* Each packet adds 1/T, and 1 / (1 + x + x^2 / 2) is left after x = t / T. */
PACE_FN void pace_rate_on_ack(struct pace_rate *rate, const struct pace_settings *set, u64 now,
			      u64 packets, u32 hold)
{
	u64 memory = max_u64(set->memory, 1);
	u64 x, kept, before, at = rate->at;

	rate->at = now;
	if (!rate->has_at) {
		rate->has_at = 1;
		return;
	}
	x = min_u64(pace_micros_since(now, at), PACE_MAX_SILENCE) * PACE_ONE / memory;
	kept = PACE_ONE * PACE_ONE / (PACE_ONE + x + x * x / (2 * PACE_ONE));
	before = hold ? rate->running : rate->rate;
	rate->running = before * kept / PACE_ONE +
			min_u64(packets, PACE_ONE << 20) * PACE_SECOND / memory;
	rate->running = min_u64(rate->running, PACE_MAX_RATE);
	pace_rate_set(rate, hold ? max_u64(rate->rate, rate->running) : rate->running);
}

static inline void pace_rate_raise(struct pace_rate *rate, u64 to)
{
	pace_rate_set(rate, min_u64(max_u64(rate->rate, to), PACE_MAX_RATE));
	rate->running = max_u64(rate->running, rate->rate);
}

/* Section 4. */

static inline void pace_headroom_restart(struct pace_headroom *headroom)
{
	headroom->run = 0;
	headroom->boost = 0;
	headroom->valley = PACE_NONE;
	headroom->progress = 0;
}

static inline bool pace_starved(const struct pace *pace)
{
	return pace->headroom.run > pace->window;
}

static inline u64 pace_headroom_step(const struct pace_headroom *headroom,
				     const struct pace_settings *set, u64 packets, u64 window)
{
	u64 step = headroom->factor * set->learning / PACE_ONE * packets / max_u64(window, 1);

	return min_u64(step, headroom->factor / 2);
}

static inline void pace_headroom_lower(struct pace_headroom *headroom, u64 step)
{
	headroom->factor = max_u64(sub_u64(headroom->factor, step), PACE_FACTOR_LEAST);
}

/* A queue that was there all the time serves nothing. */
static inline void pace_follow_valley(struct pace_headroom *headroom, u64 windows, u64 queue,
				      u64 nothing, u64 base)
{
	headroom->valley = min_u64(headroom->valley, queue);
	headroom->progress += windows;
	if (headroom->progress < PACE_HEADROOM_STRETCH)
		return;
	if (headroom->valley > nothing && base > 0)
		/* g <- g - q / 4B */
		pace_headroom_lower(headroom, min_u64(headroom->valley, 6 * base) *
						      PACE_FACTOR_ONE / base / PACE_VALLEY_PARTS);
	headroom->valley = PACE_NONE;
	headroom->progress = 0;
}

PACE_FN void pace_headroom_on_ack(struct pace *pace, const struct pace_settings *set, u64 packets,
				  u64 nothing, u64 base)
{
	struct pace_headroom *headroom = &pace->headroom;
	u64 queue = pace->queue, window = pace->window, step;
	bool empty = queue <= nothing;

	packets = min_u64(packets, PACE_MOST_PACKETS);
	if (empty) {
		headroom->run = add_u64(headroom->run, packets);
	} else {
		headroom->run = 0;
		headroom->boost = sub_u64(headroom->boost, headroom->boost * packets /
								     (PACE_BOOST_DECAY_PARTS * PACE_ONE));
	}
	if (pace_starved(pace)) {
		headroom->boost =
			min_u64(headroom->boost + packets / PACE_BOOST_PARTS, PACE_MAX_WINDOW);
	} else {
		/* g <- g (1 + k (1[empty] - e) / W) */
		step = pace_headroom_step(headroom, set, packets, window);
		if (empty)
			headroom->factor = min_u64(headroom->factor + step * (PACE_SHARE_ONE - set->empty) /
									       PACE_SHARE_ONE,
						    PACE_FACTOR_MOST);
		else
			pace_headroom_lower(headroom, step * set->empty / PACE_SHARE_ONE);
	}
	pace_follow_valley(headroom, packets * PACE_ONE / max_u64(window, 1), queue, nothing, base);
}

static inline void pace_headroom_on_loss(struct pace *pace, const struct pace_settings *set,
					 u64 packets)
{
	struct pace_headroom *headroom = &pace->headroom;

	headroom->run = 0;
	headroom->boost = 0;
	packets = min_u64(packets, PACE_MOST_PACKETS);
	pace_headroom_lower(headroom, pace_headroom_step(headroom, set, packets, pace->window) /
					      PACE_LOSS_PARTS);
}

/* Sections 6 and 8: the base RTT. */

static inline void pace_base_begin(struct pace_base *base, u64 now)
{
	__builtin_memset(base, 0, sizeof(*base));
	base->raised_at = now;
	base->seen_at = now;
	base->searched_at = now;
	base->settles_at = now;
	base->stretch_since = now;
	pace_range_begin(&base->stretch);
	pace_minima_begin(&base->lately, now);
}

static inline bool pace_settling(const struct pace_base *base, u64 now)
{
	return base->searching || now < base->settles_at;
}

static inline bool pace_base_raised(const struct pace_base *base)
{
	return base->base > base->floor + base->floor / 10;
}

static inline bool pace_search_overdue(const struct pace_base *base, u64 every, u64 now)
{
	u64 ago = sub_u64(now, base->searched_at);

	return sub_u64(now, base->seen_at) >= every ||
	       ((pace_base_raised(base) || base->rivals) && ago >= every / 2) ||
	       (base->suspected && !base->rivals && ago >= every / 10);
}

/* The RTT has been above the base for eight round trips and hardly moved. */
static inline bool pace_rtt_stands(struct pace_base *base, u64 now, u64 rtt, u64 packet)
{
	u64 low, width, queue;

	pace_range_take(&base->stretch, rtt);
	if (pace_micros_since(now, base->stretch_since) <
	    max_u64(PACE_STRETCH_ROUNDS * rtt, PACE_STRETCH_LEAST))
		return false;
	low = base->stretch.low;
	width = pace_range_width(&base->stretch);
	base->stretch_since = now;
	pace_range_begin(&base->stretch);
	queue = sub_u64(low, base->base);
	return queue > base->base / 8 + max_u64(packet, PACE_STANDING) && width < queue / 2 &&
	       pace_micros_since(now, base->searched_at) > 16 * rtt;
}

/* Section 8: the queue shrinks although we keep our part of it. */
static inline bool pace_joins_search(struct pace_base *base, u64 now, u64 rtt)
{
	u64 before = pace_minima_push(&base->lately, now, rtt, 2 * rtt * 1000);

	return base->rivals && pace_micros_since(now, base->searched_at) > 8 * rtt &&
	       before != PACE_NONE &&
	       rtt < before - sub_u64(before, base->floor) / PACE_JOIN_PARTS;
}

static inline void pace_begin_search(struct pace_base *base, u64 now, u64 rtt, u64 round_trip)
{
	rtt = min_u64(rtt, PACE_MAX_WAIT);
	base->search_from = now + sub_u64(rtt, base->floor) * 1000;
	base->search_until = base->search_from + 2 * min_u64(round_trip, PACE_MAX_WAIT) * 1000;
	pace_range_begin(&base->search_range);
	base->search_samples = 0;
	base->searching = 1;
}

static inline bool pace_conclude_search(struct pace_base *base, u64 now, bool noisy)
{
	u64 low = base->search_range.low, width = pace_range_width(&base->search_range);
	bool suspected = low > base->floor * 8 / 5 + PACE_RIVALS;
	u64 apart = low > base->suspect ? low - base->suspect : base->suspect - low;
	bool same = apart <= low / 32;
	bool again = base->suspected && same;
	bool longer;

	base->rivals = suspected && base->suspected && (base->rivals || !same);
	base->suspected = suspected;
	base->suspect = low;
	if (width > low / 4 || (noisy && suspected && !again))
		return false;
	longer = low > base->base + base->base / 10;
	if (low > base->base)
		base->raised_at = now;
	base->base = low;
	return longer;
}

/* Whether the search has ended with a longer path. */
static inline bool pace_continue_search(struct pace_base *base, u64 now, u64 sent_at, u64 rtt,
					bool noisy)
{
	if (sent_at >= base->search_from) {
		pace_range_take(&base->search_range, rtt);
		base->search_samples++;
	}
	if (now < base->search_until && base->search_samples < PACE_SAMPLES_ENOUGH)
		return false;
	base->searching = 0;
	base->seen_at = now;
	base->searched_at = now;
	base->settles_at = now + 2 * base->base * 1000;
	pace_minima_begin(&base->lately, now);
	return base->search_samples >= PACE_SAMPLES_NEEDED && pace_conclude_search(base, now, noisy);
}

enum pace_seen { PACE_SEEN_NOTHING = 0, PACE_SEEN_BASE, PACE_SEEN_LONGER_PATH };

PACE_FN u32 pace_base_sample(struct pace_base *base, const struct pace_settings *set,
			     const struct pace_ack *ack, u64 packet, u32 noisy)
{
	u64 now = ack->now, rtt = ack->rtt;
	bool near, standing, joins, longer = false;

	if (!base->base) {
		base->base = rtt;
		base->floor = rtt;
	}
	base->base = min_u64(base->base, rtt);
	base->floor = min_u64(base->floor, rtt);
	near = rtt <= base->base + base->base / PACE_NEAR_PARTS + PACE_NEAR_LEAST;
	if (near)
		base->seen_at = now;
	if (rtt <= base->floor + base->floor / 8 + PACE_RIVALS / 2) {
		base->rivals = 0;
		base->suspected = 0;
	}
	if (pace_base_raised(base) && sub_u64(now, base->raised_at) > PACE_RAISED_FOR)
		base->floor = base->base;
	standing = pace_rtt_stands(base, now, rtt, packet);
	joins = pace_joins_search(base, now, rtt);
	if (base->searching)
		longer = pace_continue_search(base, now, ack->sent_at, rtt, noisy);
	else if (standing || joins || pace_search_overdue(base, set->search, now))
		pace_begin_search(base, now, rtt, pace_micros_since(now, ack->sent_at));
	if (longer)
		return PACE_SEEN_LONGER_PATH;
	return near ? PACE_SEEN_BASE : PACE_SEEN_NOTHING;
}

/* Section 7: the elasticity. */

static inline void pace_elasticity_begin(struct pace_elasticity *elasticity, u64 now)
{
	__builtin_memset(elasticity, 0, sizeof(*elasticity));
	elasticity->tally_valid = 1;
	elasticity->jump_first_at = now;
	pace_minima_begin(&elasticity->jump_largest, now);
	elasticity->variance = PACE_ONE;
	pace_minima_begin(&elasticity->low, now);
	elasticity->rest_until = now;
}

static inline u64 pace_reach(const struct pace *pace)
{
	return max_u64(pace->elasticity.reach, pace->base.base);
}

static inline bool pace_noisy(const struct pace_elasticity *elasticity)
{
	return elasticity->variance > PACE_NOISY;
}

static inline bool pace_jumps_go_on(const struct pace_elasticity *elasticity, u64 now)
{
	return elasticity->has_jump &&
	       sub_u64(now, elasticity->jump_last_at) < PACE_SERIES_FOR &&
	       sub_u64(elasticity->jump_last_at, elasticity->jump_first_at) > PACE_SERIES_FROM;
}

static inline bool pace_asks(const struct pace_elasticity *elasticity, u64 now)
{
	return pace_jumps_go_on(elasticity, now) && now >= elasticity->rest_until;
}

/* Thue and Morse's sequence. */
static inline bool pace_is_larger(u64 round)
{
	round ^= round >> 32;
	round ^= round >> 16;
	round ^= round >> 8;
	round ^= round >> 4;
	round ^= round >> 2;
	round ^= round >> 1;
	return !(round & 1);
}

/* The window of the round that is being sent. */
static inline u64 pace_scale(const struct pace_elasticity *elasticity, u64 now, u64 window)
{
	u64 step;

	if (!pace_asks(elasticity, now))
		return window;
	step = window / PACE_ONE * PACE_STEP + window % PACE_ONE * PACE_STEP / PACE_ONE;
	return pace_is_larger(elasticity->round) ? window + step : window - step;
}

static inline void pace_take_jump(struct pace_elasticity *elasticity, u64 now,
				  const struct pace_sample *sample)
{
	u64 sent_at = elasticity->jump_sent_at, rtt = elasticity->jump_rtt, jump, least;
	bool has_before = elasticity->has_jump_before;

	elasticity->jump_sent_at = sample->sent_at;
	elasticity->jump_rtt = sample->rtt;
	elasticity->has_jump_before = 1;
	if (!has_before)
		return;
	jump = sub_u64(sub_u64(sample->rtt, rtt), pace_micros_since(sample->sent_at, sent_at));
	least = max_u64(sample->base / PACE_JUMP_PARTS, PACE_JUMP_LEAST);
	if (jump <= max_u64(least, PACE_JUMP_PACKETS * sample->packet))
		return;
	if (!elasticity->has_jump || sub_u64(now, elasticity->jump_last_at) > PACE_SERIES_FOR)
		elasticity->jump_first_at = now;
	elasticity->jump_last_at = now;
	elasticity->has_jump = 1;
	pace_minima_push(&elasticity->jump_largest, now, PACE_NONE - jump, PACE_SERIES_FOR);
}

/* (x+ - x-) / (x+ + x-), in steps of the window. */
static inline s64 pace_elasticity_of(u64 larger, u64 smaller)
{
	u64 apart = larger > smaller ? larger - smaller : smaller - larger;
	u64 size = apart * PACE_ONE / PACE_STEP * PACE_ONE / max_u64(larger + smaller, 1);

	size = min_u64(size, PACE_MOST_ELASTICITY);
	return larger >= smaller ? (s64)size : -(s64)size;
}

/* A sum that does not fall below 0. */
static inline u64 pace_sum(u64 sum, s64 value)
{
	if (value < 0)
		return sub_u64(sum, (u64)-value);
	return add_u64(sum, (u64)value);
}

static inline void pace_take_elasticity(struct pace_elasticity *elasticity, s64 value)
{
	s64 more = elasticity->proven ? PACE_MORE_PROVEN : PACE_MORE;
	s64 less = elasticity->proven ? PACE_LESS_PROVEN : PACE_LESS;
	s64 error;
	u64 size, square;
	u32 shift;

	elasticity->pairs++;
	shift = elasticity->pairs >= 32 ? 5 :
		elasticity->pairs >= 16 ? 4 :
		elasticity->pairs >= 8	? 3 :
		elasticity->pairs >= 4	? 2 :
		elasticity->pairs >= 2	? 1 :
					  0;
	error = value - elasticity->mean;
	elasticity->mean += error >> shift;
	size = error < 0 ? -error : error;
	square = size * size / PACE_ONE;
	elasticity->variance =
		elasticity->variance - (elasticity->variance >> shift) + (square >> shift);
	elasticity->more = pace_sum(elasticity->more, value - more);
	elasticity->surely = pace_sum(elasticity->surely, value - PACE_SURELY);
	elasticity->less = pace_sum(elasticity->less, less - value);
}

/* What the RTT has above the reach is the path's, all of it or half of it. */
static inline void pace_lengthen(struct pace_elasticity *elasticity, u64 base)
{
	u64 reach = max_u64(elasticity->reach, base);
	u64 excess = sub_u64(elasticity->rtt / 64, reach);
	u64 part = elasticity->mean > PACE_SURE ? excess : excess / 2;
	u64 largest = PACE_NONE - pace_minima_smallest(&elasticity->jump_largest);
	u64 most = min_u64(PACE_REACH_BASES * base, base + PACE_REACH_JUMPS * largest);

	elasticity->reach = min_u64(reach + max_u64(part, reach / PACE_REACH_PARTS), most);
	elasticity->rest_length = 0;
	elasticity->more = 0;
	elasticity->less = 0;
}

/* A quarter of what the reach has above the base goes; at the base the link is left in peace. */
static inline void pace_shorten(struct pace_elasticity *elasticity, u64 now,
				const struct pace_sample *sample)
{
	u64 base = sample->base, reach = max_u64(elasticity->reach, base);

	if (reach == base) {
		u64 length = max_u64(elasticity->rest_length * 2, PACE_REST_LEAST);

		elasticity->rest_length = min_u64(length, PACE_REST_MOST);
		elasticity->rest_until = now + elasticity->rest_length;
		elasticity->rest_rate = sample->rate;
	}
	elasticity->reach = base + (reach - base) * 3 / 4;
	if (elasticity->reach <= base + base / PACE_AT_BASE_PARTS) {
		elasticity->reach = 0;
		elasticity->proven = 0;
	}
	elasticity->more = 0;
	elasticity->less = 0;
}

static inline void pace_judge(struct pace_elasticity *elasticity, u64 now, s64 value,
			      const struct pace_sample *sample)
{
	u64 bar_more, bar_less;

	pace_take_elasticity(elasticity, value);
	bar_more = PACE_ONE / 2 + PACE_ANSWER_MORE * elasticity->variance;
	bar_less = PACE_ONE / 2 + PACE_ANSWER_LESS * elasticity->variance;
	if (pace_noisy(elasticity) &&
	    pace_minima_smallest(&elasticity->low) > sample->base + sample->base / PACE_STANDS_PARTS) {
		pace_shorten(elasticity, now, sample);
	} else if (elasticity->surely > bar_more) {
		elasticity->proven = 1;
		elasticity->surely = 0;
		pace_lengthen(elasticity, sample->base);
	} else if (elasticity->more > bar_more) {
		pace_lengthen(elasticity, sample->base);
	} else if (elasticity->less > bar_less) {
		pace_shorten(elasticity, now, sample);
	}
}

/* The first packet of the round has arrived: the next one is sent, and this one is counted. */
static inline void pace_begin_round(struct pace_elasticity *elasticity, u64 now,
				    const struct pace_sample *sample)
{
	u64 flights = elasticity->tally_flights, counted, rate, first;
	bool valid = elasticity->tally_valid && flights > 0;

	rate = (min_u64(elasticity->tally_delivered, 1ull << 40) << 20) / max_u64(flights / 16, 1);
	rate = min_u64(rate, 1ull << 40);
	elasticity->round++;
	elasticity->began_at = sample->delivered;
	elasticity->tally_delivered = 0;
	elasticity->tally_flights = 0;
	elasticity->tally_valid = 1;
	counted = sub_u64(elasticity->round, 2);
	if (!valid) {
		elasticity->has_first = 0;
	} else if (counted % 2 == 0) {
		elasticity->has_first = 1;
		elasticity->first = rate;
	} else if (elasticity->has_first) {
		elasticity->has_first = 0;
		first = elasticity->first;
		pace_judge(elasticity, now,
			   pace_is_larger(counted) ? pace_elasticity_of(rate, first) :
						     pace_elasticity_of(first, rate),
			   sample);
	}
}

PACE_FN void pace_elasticity_on_ack(struct pace_elasticity *elasticity, u64 now,
				    const struct pace_sample *sample)
{
	bool asks;

	pace_take_jump(elasticity, now, sample);
	if (!pace_jumps_go_on(elasticity, now)) {
		elasticity->reach = 0;
		elasticity->proven = 0;
	}
	elasticity->rtt = elasticity->rtt + sample->rtt - elasticity->rtt / 64;
	pace_minima_push(&elasticity->low, now, sample->rtt, PACE_STANDS_FOR);
	if (sample->rate < elasticity->rest_rate - elasticity->rest_rate / 8) {
		elasticity->rest_until = now;
		elasticity->rest_rate = 0;
	}
	asks = pace_asks(elasticity, now);
	if (sample->delivered_before >= elasticity->began_at)
		pace_begin_round(elasticity, now, sample);
	elasticity->tally_delivered += min_u64(sample->flight, 1 << 20);
	elasticity->tally_flights += sample->rtt;
	elasticity->tally_valid &= asks && sample->valid;
}

/* The controller: mod.rs. */

static inline void pace_begin(struct pace *pace, const struct pace_settings *set, u64 now)
{
	__builtin_memset(pace, 0, sizeof(*pace));
	pace->window = set->initial_window;
	pace->headroom.factor = PACE_FACTOR_INITIAL;
	pace->headroom.valley = PACE_NONE;
	pace_base_begin(&pace->base, now);
	pace_elasticity_begin(&pace->elasticity, now);
	pace->startup = 1;
	pace->cap = PACE_NO_CAP;
	pace->peak = set->initial_window;
	pace->last_ack_at = now;
}

/* In the kernel sizes are in packets. */
static inline u64 pace_full_packets(const struct pace_settings *set, u64 bytes)
{
	return set->mss > 1 ? bytes / set->mss : bytes;
}

static inline u64 pace_packets(const struct pace_settings *set, u64 bytes)
{
	return pace_full_packets(set, min_u64(bytes, 1ull << 47) * PACE_ONE);
}

/* The packets that a rate brings in a time. */
static inline u64 pace_held(u64 rate, u64 micros)
{
	return rate / 4 * min_u64(micros, 1 << 24) / (PACE_SECOND / 4);
}

/* Section 4: the queueing delay up to which a queue counts as empty. */
static inline u64 pace_nothing(const struct pace *pace)
{
	return max_u64(PACE_NOTHING, min_u64(pace->rate.packet_time, pace->base.base / 2));
}

/* Packets that were delivered while one packet was in flight. */
static inline u64 pace_flight(const struct pace *pace, const struct pace_settings *set,
			      const struct pace_ack *ack)
{
	return pace_full_packets(set, sub_u64(pace->delivered, ack->stamp));
}

static inline u64 pace_flight_rate(const struct pace *pace, const struct pace_settings *set,
				   const struct pace_ack *ack)
{
	u64 flight = min_u64(pace_flight(pace, set, ack), 1 << 24);

	return flight * PACE_ONE * PACE_SECOND / max_u64(ack->rtt, 1);
}

/* Section 2: W = g r B + b. */
PACE_FN void pace_update_window(struct pace *pace, const struct pace_settings *set, u64 now)
{
	u64 rate = pace->headroom.factor / PACE_ONE * (pace->rate.rate / 256) / 256;
	u64 target = pace_held(rate, pace_reach(pace)) + set->extra + pace->headroom.boost;

	target = max_u64(target, pace->rival_window);
	if (pace->base.searching) {
		u64 half = pace_held(pace->rate.rate / 2, pace->base.floor);

		target = min_u64(target, max_u64(half, PACE_SEARCH_LEAST));
	} else {
		if (pace->cap > target)
			pace->cap = PACE_NO_CAP;
		if (!pace->rival_window)
			target = pace_scale(&pace->elasticity, now, target);
	}
	target = min_u64(target, pace->cap);
	pace->window = min_u64(max_u64(target, set->min_window), PACE_MAX_WINDOW);
}

static inline void pace_leave_startup(struct pace *pace, const struct pace_settings *set, u64 now)
{
	pace->startup = 0;
	pace_headroom_restart(&pace->headroom);
	pace_update_window(pace, set, now);
}

/* Slow start: twice the window per round trip, until a queue appears. */
static inline void pace_start_up(struct pace *pace, const struct pace_settings *set,
				 const struct pace_ack *ack, u64 packets)
{
	bool queued = pace->queue > max_u64(pace->base.base / 8, PACE_STARTUP_EXIT);

	pace->queued_run = queued ? pace->queued_run + packets : 0;
	if (pace->queued_run <
	    max_u64(PACE_STARTUP_RUN * PACE_ONE, pace->window / PACE_STARTUP_RUN)) {
		if (!ack->app_limited)
			pace->window = min_u64(min_u64(pace->window + packets, pace->cap),
						PACE_MAX_WINDOW);
		return;
	}
	pace_rate_raise(&pace->rate, pace_flight_rate(pace, set, ack));
	pace_leave_startup(pace, set, ack->now);
}

/* Section 7: whether the rate follows the window. */
static inline void pace_ask(struct pace *pace, const struct pace_settings *set,
			    const struct pace_ack *ack, bool settling)
{
	bool limited_by_law = pace->cap == PACE_NO_CAP && !pace->rival_window && !pace->startup;
	struct pace_sample sample = {
		.sent_at = ack->sent_at,
		.rtt = ack->rtt,
		.delivered_before = ack->newest,
		.delivered = pace->delivered,
		.flight = pace_flight(pace, set, ack),
		.base = pace->base.base,
		.packet = pace->rate.packet_time,
		.rate = pace->rate.rate,
		.valid = limited_by_law && !settling && !ack->app_limited,
	};

	pace_elasticity_on_ack(&pace->elasticity, ack->now, &sample);
}

/* Section 8. */
static inline void pace_face_rivals(struct pace *pace, const struct pace_ack *ack, u64 packets)
{
	if (!pace->base.rivals || pace_noisy(&pace->elasticity)) {
		pace->rival_window = 0;
		pace->peak = pace->queue <= pace_nothing(pace) ? pace->window :
								 max_u64(pace->peak, pace->window);
	} else if (!pace->rival_window) {
		pace->rival_window = pace->peak;
	} else if (!pace->base.searching && !ack->app_limited) {
		pace->rival_window += PACE_RIVAL_INCREASE * packets * PACE_ONE / pace->rival_window;
		pace->rival_window = min_u64(pace->rival_window, PACE_MAX_WINDOW);
	}
}

static inline void pace_learn(struct pace *pace, const struct pace_settings *set,
			      const struct pace_ack *ack, u64 packets)
{
	pace_headroom_on_ack(pace, set, packets, pace_nothing(pace), pace_reach(pace));
	if (pace_starved(pace))
		pace_rate_raise(&pace->rate, pace_flight_rate(pace, set, ack));
}

/* Section 9. */

static inline void pace_on_sent(struct pace *pace, const struct pace_settings *set, u64 now,
				bool was_idle)
{
	if (was_idle && pace->delivered > 0 && !pace->startup &&
	    sub_u64(now, pace->last_ack_at) > PACE_PAUSE) {
		pace->cap = min_u64(pace->cap, set->initial_window);
		pace_update_window(pace, set, now);
	}
}

PACE_FN void pace_on_ack(struct pace *pace, const struct pace_settings *set,
			 const struct pace_ack *ack)
{
	u64 packets = pace_packets(set, ack->bytes);
	bool settling;
	u32 seen;

	pace->delivered = add_u64(pace->delivered, ack->bytes);
	pace->last_ack_at = ack->now;
	if (!ack->has_packet)
		return;
	seen = pace_base_sample(&pace->base, set, ack, pace->rate.packet_time,
				pace_noisy(&pace->elasticity));
	if (seen == PACE_SEEN_BASE)
		pace->base_rate = pace->rate.rate;
	else if (seen == PACE_SEEN_LONGER_PATH)
		pace_rate_raise(&pace->rate, pace->base_rate);
	settling = pace_settling(&pace->base, ack->now);
	pace_rate_on_ack(&pace->rate, set, ack->now, packets, settling || ack->app_limited);
	pace_ask(pace, set, ack, settling);
	pace->queue = sub_u64(ack->rtt, pace_reach(pace));
	pace->cap = add_u64(pace->cap, packets);
	if (pace->startup) {
		pace_start_up(pace, set, ack, packets);
		return;
	}
	pace_face_rivals(pace, ack, packets);
	if (!ack->app_limited && !settling)
		pace_learn(pace, set, ack, packets);
	pace_update_window(pace, set, ack->now);
}

/* Half of what the window takes at the latest RTT, after slow start. */
static inline u64 pace_half_rate(const struct pace *pace, u64 latest_us)
{
	return pace->window / 2 * PACE_SECOND / max_u64(latest_us, 1000);
}

/* A lost or marked packet: at most one reduction per round trip among rivals. */
static inline void pace_congestion(struct pace *pace, const struct pace_settings *set,
				   const struct pace_loss *loss, u64 packets)
{
	pace_headroom_on_loss(pace, set, packets);
	if (pace->rival_window > 0 && loss->newest >= pace->reduced_at) {
		pace->reduced_at = loss->next;
		pace->rival_window =
			max_u64(pace->rival_window * PACE_RIVAL_CUT / 10, set->min_window);
	}
	pace_update_window(pace, set, loss->now);
}

PACE_FN void pace_on_loss(struct pace *pace, const struct pace_settings *set,
			  const struct pace_loss *loss)
{
	u64 lost = pace_packets(set, loss->amount);

	if (!pace->startup) {
		pace_congestion(pace, set, loss, lost);
	} else if (lost > PACE_STARTUP_LOSSES) {
		pace_rate_raise(&pace->rate, pace_half_rate(pace, loss->rtt));
		pace_leave_startup(pace, set, loss->now);
	}
}

PACE_FN void pace_on_mark(struct pace *pace, const struct pace_settings *set,
			  const struct pace_loss *mark)
{
	if (pace->startup) {
		pace_rate_raise(&pace->rate, pace_half_rate(pace, mark->rtt));
		pace_leave_startup(pace, set, mark->now);
	}
	pace_congestion(pace, set, mark, min_u64(mark->amount, 1 << 20) * PACE_ONE);
}

PACE_FN void pace_on_timeout(struct pace *pace, const struct pace_settings *set, u64 now)
{
	if (!pace->has_before_timeout) {
		pace->has_before_timeout = 1;
		pace->before_timeout = pace->cap;
	}
	pace->cap = set->min_window;
	pace_headroom_restart(&pace->headroom);
	if (pace->startup)
		pace->window = set->min_window;
	else
		pace_update_window(pace, set, now);
}

static inline void pace_on_spurious_timeout(struct pace *pace, const struct pace_settings *set,
					    u64 now)
{
	if (!pace->has_before_timeout)
		return;
	pace->has_before_timeout = 0;
	pace->cap = pace->before_timeout;
	if (!pace->startup)
		pace_update_window(pace, set, now);
}

static inline void pace_on_late_packet(struct pace *pace, u64 bytes)
{
	pace->delivered = add_u64(pace->delivered, bytes);
}

static inline void pace_on_path_change(struct pace *pace, u64 now)
{
	pace_base_begin(&pace->base, now);
	pace_headroom_restart(&pace->headroom);
	pace_elasticity_begin(&pace->elasticity, now);
	pace->rival_window = 0;
	pace->has_before_timeout = 0;
}

/* Bytes per second; 0: not paced. */
static inline u64 pace_pacing_rate(const struct pace *pace, const struct pace_settings *set)
{
	u64 gain = pace->startup || pace_starved(pace) ? PACE_FAST_GAIN : PACE_GAIN;
	u64 bytes = pace->window * set->mss / PACE_ONE;

	return pace->base.base ? bytes * gain / 4 * PACE_SECOND / pace->base.base : 0;
}

#endif
