/* SPDX-License-Identifier: GPL-2.0 OR MIT OR Apache-2.0 */
/*
 * The law of Copa (docs/spec/copa.md) in whole numbers, step by step as crates/cc/src/copa does it; sections
 * are those of the specification, constants are explained in Rust. copa_host.c shows that both are in the
 * same state after every event.
 *
 * Points in time are in nanoseconds, RTTs in microseconds; windows (packets) have 32 bits behind the point,
 * 1/delta (packets to keep queued) has 16.
 *
 * The file that includes this has u32, u64, s64 and bool, COPA_FN for functions, and COPA_LOOP(n, turn, data),
 * which calls turn(number, data) n times, n being 64 at most.
 */
#ifndef CELLPACE_COPA_H
#define CELLPACE_COPA_H

#include "numbers.h"

#define COPA_PACKET (1ull << 32)
#define COPA_KEPT_ONE (1ull << 16)
#define COPA_MAX_WINDOW (COPA_PACKET << 20)
#define COPA_LOSS_CUT 7
#define COPA_PACING 2
#define COPA_MAX_PUSH (1ull << 31)
#define COPA_TURNS 64
#define COPA_MAX_VELOCITY (1ull << 20)
#define COPA_SAME_WINDOWS 3
#define COPA_SRTT_PARTS 16
#define COPA_MIN_RTT_WINDOW 10000000000ull
#define COPA_MIN_RTT_RTTS 20
#define COPA_STANDING_DIVISOR 2
#define COPA_NEAR_MIN_RTTS 5
#define COPA_NEAR_MAX_RTTS 4
#define COPA_NEAR_PARTS 10
#define COPA_MAX_RTT (1ull << 30)
#define COPA_RTT_RESOLUTION 1000000
#define COPA_LOSS_LIMIT 3
#define COPA_LOSS_ENOUGH 20
#define COPA_ENTRIES 64

/* params.rs, in the units of the law */
struct copa_settings {
	u64 mss; /* bytes of a full packet; 1 where sizes are in packets */
	u64 kept;
	u64 most_kept;
	u64 initial_window;
	u64 min_window;
	u64 adapts; /* mode=auto */
	u64 code_velocity;
	u64 velocity_cap;
	u64 strict;
	u64 probe;
	u64 idle; /* ns */
};

/* recent.rs, as a ring */
struct copa_recent {
	u64 at[COPA_ENTRIES];
	u32 value[COPA_ENTRIES];
	u32 first;
	u32 length;
};

struct copa {
	u64 window;
	u64 kept;
	u64 lowered_at;
	u64 doubled_at;
	u64 acked;
	u64 last_ack_at;
	u64 before_timeout;
	u64 before_cut;
	u32 slow_start;
	u32 competitive;
	u32 has_doubled;
	u32 has_before_timeout;
	u32 slow_start_before;

	/* velocity.rs */
	u32 has_direction;
	u64 velocity;
	u64 same;
	u64 window_start;
	u64 window_end;
	u32 has_window_end;
	u32 has_checked;
	u64 checked_at;
	s64 net;
	s64 direction; /* 1: up, -1: down */

	/* meter.rs */
	u64 lost;
	u64 total;
	u64 counted_since;
	u64 verdict_lost;
	u64 verdict_total;
	u64 has_verdict;

	/* delays.rs */
	u64 srtt; /* us, in sixteenths */
	u64 latest; /* ns */
	/* The extremes of the last sample, for `kernel watch`: iterators take no index that varies. */
	u64 minimum_shown;
	u64 standing_shown;
	struct copa_recent minimum;
	struct copa_recent standing;
	struct copa_recent near_min;
	struct copa_recent near_max;
};

/* What an acknowledgment brings. */
struct copa_ack {
	u64 now;
	u64 packets;
	u64 number; /* of the newest packet, */
	u64 next;   /* and of the next one: anything that counts up with packets sent */
	u64 rtt;    /* ns, the shortest of its packets; 0: none */
	u64 app_limited;
};

/* recent.rs */

static inline u32 copa_place(const struct copa_recent *recent, u32 number)
{
	return (recent->first + number) & (COPA_ENTRIES - 1);
}

/* The smallest power of two of which a window has at most 61. */
static inline u32 copa_cell_bits(u64 window)
{
	u32 bits = 0;

#define COPA_STEP(n)                                                                               \
	if (window >> (bits + (n)-1) > 61)                                                         \
		bits += (n);
	COPA_STEP(32)
	COPA_STEP(16)
	COPA_STEP(8)
	COPA_STEP(4)
	COPA_STEP(2)
	COPA_STEP(1)
#undef COPA_STEP
	return bits;
}

/* How many entries are better than a value: they stand first. Seven halves of 64 entries are enough. */
static inline u32 copa_better_than(const struct copa_recent *recent, u64 value, bool largest)
{
	u32 low = 0, high = recent->length;

	for (int i = 0; i < 7; i++) {
		u32 middle = (low + high) / 2;
		u64 other = recent->value[copa_place(recent, middle)];

		if (low >= high)
			continue;
		if (largest ? other > value : other < value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static inline u32 copa_older_than(const struct copa_recent *recent, u64 oldest)
{
	u32 low = 0, high = recent->length;

	for (int i = 0; i < 7; i++) {
		u32 middle = (low + high) / 2;
		u64 at = recent->at[copa_place(recent, middle)];

		if (low >= high)
			continue;
		if (at < oldest)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

COPA_FN void copa_push(struct copa_recent *recent, u64 now, u64 value, u64 window, u32 largest)
{
	u32 bits = copa_cell_bits(window) & 63, last, place, gone;

	recent->length = copa_better_than(recent, value, largest);
	last = copa_place(recent, recent->length - 1);
	if (recent->length && (recent->length >= COPA_ENTRIES || recent->at[last] >> bits == now >> bits)) {
		recent->at[last] = now;
	} else {
		place = copa_place(recent, recent->length);
		recent->at[place] = now;
		recent->value[place] = value;
		recent->length++;
	}
	gone = min_u64(copa_older_than(recent, sub_u64(now, window)), recent->length - 1);
	recent->first = copa_place(recent, gone);
	recent->length -= gone;
}

static inline u64 copa_extreme(const struct copa_recent *recent)
{
	return recent->length ? recent->value[recent->first & (COPA_ENTRIES - 1)] : 0;
}

/* delays.rs */

static inline u64 copa_rtts(const struct copa *copa, u64 parts, u64 most)
{
	return min_u64(parts * copa->srtt * 1000 / COPA_SRTT_PARTS, most);
}

COPA_FN void copa_sample(struct copa *copa, u64 now, u64 rtt)
{
	u64 long_window;

	rtt = min_u64(max_u64(rtt, COPA_RTT_RESOLUTION), COPA_MAX_RTT * 1000);
	copa->latest = rtt;
	rtt /= 1000;
	copa->srtt = copa->srtt ? copa->srtt - copa->srtt / COPA_SRTT_PARTS + rtt :
				  COPA_SRTT_PARTS * rtt;
	long_window = max_u64(COPA_MIN_RTT_WINDOW,
			       COPA_MIN_RTT_RTTS * copa_extreme(&copa->minimum) * 1000);
	copa_push(&copa->minimum, now, rtt, long_window, 0);
	copa_push(&copa->near_min, now, rtt, copa_rtts(copa, COPA_NEAR_MIN_RTTS, long_window), 0);
	copa_push(&copa->near_max, now, rtt, copa_rtts(copa, COPA_NEAR_MAX_RTTS, long_window), 1);
	copa_push(&copa->standing, now, rtt,
		  min_u64(copa->srtt * 1000 / (COPA_SRTT_PARTS * COPA_STANDING_DIVISOR), long_window), 0);
	copa->minimum_shown = copa_extreme(&copa->minimum);
	copa->standing_shown = copa_extreme(&copa->standing);
}

static inline void copa_restart_delays(struct copa *copa)
{
	copa->srtt = 0;
	copa->latest = 0;
	copa->standing.length = 0;
	copa->near_min.length = 0;
	copa->near_max.length = 0;
}

static inline u64 copa_queueing(const struct copa *copa)
{
	return sub_u64(copa_extreme(&copa->standing), copa_extreme(&copa->minimum));
}

/* Section 7: whether the queue was nearly empty within the last RTTs. */
static inline bool copa_near_empty(const struct copa *copa, const struct copa_settings *set)
{
	u64 base = copa_extreme(&copa->minimum);
	u64 recent = COPA_NEAR_PARTS * sub_u64(copa_extreme(&copa->near_min), base);
	u64 range = sub_u64(copa_extreme(&copa->near_max), base);

	return set->strict ? recent < range : recent <= range;
}

/* velocity.rs */

static inline void copa_restart_velocity(struct copa *copa)
{
	copa->velocity = 1;
	copa->has_direction = 0;
	copa->same = 0;
	copa->window_start = 0;
	copa->has_window_end = 0;
	copa->has_checked = 0;
	copa->net = 1;
	copa->direction = 1;
}

static inline void copa_open_window(struct copa *copa, const struct copa_ack *ack)
{
	copa->window_start = copa->window;
	copa->window_end = ack->next;
	copa->has_window_end = 1;
}

static inline u64 copa_check_paper(struct copa *copa, const struct copa_ack *ack)
{
	s64 moved;

	if (!copa->has_window_end) {
		copa_open_window(copa, ack);
		return copa->velocity;
	}
	if (ack->number < copa->window_end)
		return copa->velocity;
	moved = copa->window > copa->window_start ? 1 : -1;
	copa_open_window(copa, ack);
	if (!copa->has_direction || copa->direction != moved) {
		copa->has_direction = 1;
		copa->direction = moved;
		copa->same = 0;
		return 1;
	}
	copa->same++;
	return copa->same >= COPA_SAME_WINDOWS ? copa->velocity * 2 : copa->velocity;
}

static inline u64 copa_check_code(struct copa *copa, const struct copa_ack *ack)
{
	bool kept;

	if (copa->has_checked && ack->now <= copa->checked_at + copa->latest)
		return copa->velocity;
	copa->has_checked = 1;
	copa->checked_at = ack->now;
	kept = copa->direction * copa->net > 0;
	copa->net = 0;
	if (kept)
		return 2 * copa->velocity;
	copa->direction = -copa->direction;
	return 1;
}

/* Section 6: the velocity for a step of packets in a direction. */
static inline u64 copa_velocity(struct copa *copa, const struct copa_settings *set,
				const struct copa_ack *ack, s64 direction, u64 packets)
{
	u64 velocity;

	if (set->code_velocity) {
		velocity = copa_check_code(copa, ack);
		copa->net += direction * (s64)packets;
	} else {
		velocity = copa_check_paper(copa, ack);
		if (copa->has_direction && copa->direction != direction)
			velocity = 1;
	}
	if (set->velocity_cap && velocity * copa->kept > copa->window >> 16)
		velocity /= 2;
	copa->velocity = min_u64(max_u64(velocity, 1), COPA_MAX_VELOCITY);
	return copa->velocity;
}

/* mod.rs */

static inline void copa_forget_queue(struct copa *copa, const struct copa_settings *set, u64 now)
{
	copa->competitive = 0;
	copa->kept = set->kept;
	copa->lowered_at = now;
	copa->has_doubled = 0;
	copa_restart_velocity(copa);
	copa->lost = 0;
	copa->total = 0;
	copa->counted_since = now;
	copa->has_verdict = 0;
}

static inline void copa_begin(struct copa *copa, const struct copa_settings *set, u64 now)
{
	/* Of the extremes only the lengths count. */
	__builtin_memset(copa, 0, __builtin_offsetof(struct copa, minimum));
	copa_restart_delays(copa);
	copa->minimum.length = 0;
	copa->window = set->initial_window;
	copa->before_cut = set->initial_window;
	copa->slow_start = 1;
	copa->last_ack_at = now;
	copa_forget_queue(copa, set, now);
}

/* Starts over after an outage or a long pause; the minimum RTT stays. */
static inline void copa_restart(struct copa *copa, const struct copa_settings *set, u64 now)
{
	copa->window = set->initial_window;
	copa->slow_start = 1;
	copa_restart_delays(copa);
	copa_forget_queue(copa, set, now);
	copa->acked = 0;
	copa->last_ack_at = now;
	copa->has_before_timeout = 0;
}

static inline bool copa_silent(const struct copa *copa, const struct copa_settings *set, u64 now)
{
	return sub_u64(now, copa->last_ack_at) >= set->idle;
}

/* Section 7. */
static inline void copa_update_delta(struct copa *copa, const struct copa_settings *set, u64 now,
				     bool lost)
{
	u64 rtt = copa->latest;

	if (!set->adapts)
		return;
	if (copa_near_empty(copa, set)) {
		copa->competitive = 0;
		copa->kept = set->kept;
		return;
	}
	if (!copa->competitive) {
		copa->competitive = 1;
		copa->lowered_at = now;
	}
	if (lost && (!copa->has_doubled || now >= copa->doubled_at + rtt)) {
		copa->kept /= 2;
		copa->doubled_at = now;
		copa->has_doubled = 1;
	}
	if (!lost && now >= copa->lowered_at + rtt) {
		copa->kept += COPA_KEPT_ONE;
		copa->lowered_at = now;
	}
	copa->kept = min_u64(max_u64(copa->kept, set->kept), set->most_kept);
}

/* Section 6: the window at which the rate would be 1/(delta dq), with 16 bits behind the point. */
static inline u64 copa_target(const struct copa *copa)
{
	u64 queueing = copa_queueing(copa);

	return queueing ? copa_extreme(&copa->standing) * copa->kept / queueing : ~0ull;
}

struct copa_turn {
	struct copa *copa;
	const struct copa_settings *set;
	const struct copa_ack *ack;
	u64 target;
	u64 left;
	u64 most;
};

static inline void copa_steer(struct copa *copa, const struct copa_settings *set,
			      const struct copa_ack *ack, u64 target, u64 packets)
{
	s64 direction = copa->window >> 16 < target ? 1 : -1;
	u64 velocity = copa_velocity(copa, set, ack, direction, packets);
	u64 push = min_u64(velocity * copa->kept, COPA_MAX_PUSH);
	/* v / (delta W) for each packet */
	u64 step = packets * ((push << 32) / max_u64(copa->window >> 16, 1));

	if (direction < 0)
		copa->window = sub_u64(copa->window, step);
	else if (!ack->app_limited)
		copa->window += step;
}

COPA_FN long copa_turn(u32 number, struct copa_turn *turn)
{
	struct copa *copa = turn->copa;
	u64 packets = min_u64(turn->left, turn->most);

	(void)number;
	turn->left -= packets;
	if (!copa->slow_start)
		copa_steer(copa, turn->set, turn->ack, turn->target, packets);
	else if (!turn->ack->app_limited)
		copa->window += packets * COPA_PACKET;
	if (copa->window >> 16 >= turn->target)
		copa->slow_start = 0;
	copa->window = min_u64(max_u64(copa->window, turn->set->min_window), COPA_MAX_WINDOW);
	return turn->left ? 0 : 1;
}

static inline void copa_update_window(struct copa *copa, const struct copa_settings *set,
				      const struct copa_ack *ack, u64 packets)
{
	struct copa_turn turn = { copa, set, ack, copa_target(copa), packets,
				  (packets + COPA_TURNS - 1) / COPA_TURNS };

	if (packets)
		COPA_LOOP(COPA_TURNS, copa_turn, &turn);
}

static inline bool copa_too_many(u64 lost, u64 total)
{
	return 10 * lost > COPA_LOSS_LIMIT * total;
}

/* Section 5, step 5. */
static inline void copa_count_losses(struct copa *copa, const struct copa_settings *set, u64 now,
				     u64 lost, u64 acked)
{
	copa->lost += lost;
	copa->total += lost + acked;
	if (now <= copa->counted_since + 2 * copa->latest || copa->total <= COPA_LOSS_ENOUGH)
		return;
	copa->verdict_lost = copa->lost;
	copa->verdict_total = copa->total;
	copa->has_verdict = copa_too_many(copa->lost, copa->total);
	copa->lost = 0;
	copa->total = 0;
	copa->counted_since = now;
	if (!copa->has_verdict)
		return;
	copa->before_cut = copa->window;
	copa->window = max_u64(copa->window / 10 * COPA_LOSS_CUT, set->min_window);
}

static inline void copa_on_sent(struct copa *copa, const struct copa_settings *set, u64 now,
				bool was_idle)
{
	if (was_idle && copa_silent(copa, set, now))
		copa_restart(copa, set, now);
}

COPA_FN void copa_on_ack(struct copa *copa, const struct copa_settings *set,
			 const struct copa_ack *ack)
{
	u64 unmoved;

	if (copa_silent(copa, set, ack->now))
		copa_restart(copa, set, ack->now);
	copa->last_ack_at = ack->now;
	if (ack->rtt)
		copa_sample(copa, ack->now, ack->rtt);
	copa_update_delta(copa, set, ack->now, false);
	unmoved = min_u64(sub_u64(set->probe, copa->acked), ack->packets);
	copa_update_window(copa, set, ack, ack->packets - unmoved);
	copa->acked += ack->packets;
	copa_count_losses(copa, set, ack->now, 0, ack->packets);
}

COPA_FN void copa_on_loss(struct copa *copa, const struct copa_settings *set, u64 now, u64 packets)
{
	copa_update_delta(copa, set, now, true);
	copa_count_losses(copa, set, now, packets, 0);
}

COPA_FN void copa_on_timeout(struct copa *copa, const struct copa_settings *set, u64 now)
{
	if (copa_silent(copa, set, now)) {
		copa_restart(copa, set, now);
		return;
	}
	if (!copa->has_before_timeout) {
		copa->has_before_timeout = 1;
		copa->before_timeout = copa->window;
		copa->slow_start_before = copa->slow_start;
	}
	copa->window = set->min_window;
	copa->slow_start = 1;
	copa_restart_velocity(copa);
}

static inline void copa_on_spurious_timeout(struct copa *copa)
{
	if (!copa->has_before_timeout)
		return;
	copa->has_before_timeout = 0;
	copa->window = max_u64(copa->window, copa->before_timeout);
	copa->slow_start = copa->slow_start_before;
}

/* A packet counted as lost has arrived after all: the last cut falls if it was one too many. */
static inline void copa_on_late_packet(struct copa *copa)
{
	if (!copa->has_verdict) {
		copa->lost = sub_u64(copa->lost, 1);
		return;
	}
	copa->verdict_lost = sub_u64(copa->verdict_lost, 1);
	if (copa_too_many(copa->verdict_lost, copa->verdict_total))
		return;
	copa->has_verdict = 0;
	copa->window = max_u64(copa->window, copa->before_cut);
}

static inline void copa_on_path_change(struct copa *copa, const struct copa_settings *set, u64 now)
{
	copa_restart_delays(copa);
	copa->minimum.length = 0;
	copa_forget_queue(copa, set, now);
	copa->has_before_timeout = 0;
}

/* Bytes per second; 0: not paced. */
static inline u64 copa_pacing_rate(const struct copa *copa, const struct copa_settings *set)
{
	u64 standing = copa_extreme(&copa->standing);
	u64 bytes = (copa->window >> 16) * set->mss >> 16;

	return standing ? COPA_PACING * bytes * 1000000 / standing : 0;
}

#endif
