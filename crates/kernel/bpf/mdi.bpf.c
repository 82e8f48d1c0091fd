// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * MDI in the kernel: a congestion control that replays another one from a Markov table by a guided
 * random walk (walk.h), with no process in user space.
 *
 * Around the walk it does what crates/cc/src/mdi does, in whole numbers: the largest RTT per epoch,
 * one cut per round trip with losses, half the window after a timeout, slow start on request. Two
 * things differ, because the kernel calls when acknowledgments come and not when epochs end:
 *
 *  - Epochs that passed since the last acknowledgment are made up for when the next one comes, or the
 *    timeout, each with the silence that there was at its end. In between nothing could have left.
 *  - The window bounds what is in flight directly. Only tables of absolute states, which say how
 *    many packets leave in an epoch, have a credit.
 *
 * A table never changes: another model is another object, whose sockets have maps of their own, and
 * sockets of the model before keep to theirs.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* Set by the loader, in this order. */
const volatile struct {
	__u32 header[20]; /* the first words of the table */
	__u64 seed;	  /* of the walks; 0: random ones */
	__u32 slow_start; /* whether a slow start goes in front of the walk */
	__u32 unused;
	/* For `cellpace kernel status`; see crates/kernel/src/table.rs. */
	__u8 sha256[32];
	char teacher[64];
	char controller[128];
} model SEC(".rodata.model");

/* The flat table, word by word; the loader sets the size and freezes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, 1U << 7 /* BPF_F_RDONLY_PROG */);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} table SEC(".maps");

typedef __u32 walk_u32;
typedef __u64 walk_u64;
typedef __s32 walk_s32;
typedef __s64 walk_s64;
#define WALK_FN __attribute__((noinline))
#define walk_header model.header

static __always_inline walk_u32 walk_word(walk_u32 at)
{
	__u32 *word = bpf_map_lookup_elem(&table, &at);

	return word ? *word : 0;
}

#include "walk.h"

/* Fields that only this program needs. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct tcp_sock___mdi {
	u32 snd_cwnd_clamp;
};
#pragma clang attribute pop

#define NSEC_PER_USEC 1000ull
#define NSEC_PER_SEC 1000000000ull

/* Epochs made up for at most: a second of them, where they last 5 ms. */
#define MAX_MISSED 200

/* Windows of the last epochs, to know the one at which a packet was sent. A power of two. */
#define HISTORY 256

/*
 * With delayed acknowledgments fewer packets have one ack in a round trip, from which the walk learns
 * too little to grow. It is what BBR keeps in flight for the same reason (draft-ietf-ccwg-bbr,
 * MinPipeCwnd).
 */
#define MIN_CWND 4
/* While losses are repaired. The ack of a lone packet would wait for the receiver's timer. */
#define MIN_CWND_LOSSES 2

/* Slow start as Verus does it (docs/spec/verus.md 5 and 9). */
#define START_EXIT_US 500000u
#define START_EXIT_RATIO 15
#define START_EXIT_LOSS 20
#define START_MAX 39999u
#define START_EXPIRY (150 * 1000 * NSEC_PER_USEC)
/* What a loss or a delay leaves: 0.7, in 1/65536. */
#define START_FACTOR 45875u

struct flow {
	struct walk walk;
	u64 next_epoch;	 /* ns */
	u64 quiet_since; /* the last ack, or the first packet sent into silence; ns */
	u64 start_lost;	 /* when a loss will have its effect on slow start; ns; 0: none */
	u32 start_lost_w;
	u32 start_w;	   /* the window of slow start in packets; 0: the walk's holds */
	u32 start_base_us; /* the least RTT in it */
	u32 epoch_max_us;  /* the largest RTT since the last epoch; 0: none */
	u32 d1_us;	   /* that of the last epoch that had any */
	u32 last_rtt_us;   /* 0: no ack yet */
	u32 epochs;	   /* how many, and where in the history the next one goes */
	u32 cut;	   /* whether a cut's round trip is not over */
	u32 cut_delivered; /* packets delivered before it */
	u32 ceiling;	   /* what the cut left of the window, until then; 0: none */
	u32 before_cut;	   /* for the case that nothing was lost; 0: nothing to undo */
	u32 credit;	   /* packets that may still leave */
	u32 sent;	   /* packets sent when the credit was counted */
	u32 history[HISTORY]; /* of which the last `epochs` hold anything */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

/* Sockets so far: each has a walk of its own. */
__u64 sockets;

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static __always_inline u64 epoch_ns(void)
{
	u32 us = walk_header[WALK_EPOCH_US];

	return (us < 100 ? 100 : us) * NSEC_PER_USEC;
}

/* Epochs in a round trip, at least one. */
static __always_inline u32 epochs_per_rtt(const struct flow *flow)
{
	u32 us = walk_header[WALK_EPOCH_US];

	us = us < 100 ? 100 : us;
	return max_u32((flow->last_rtt_us + us - 1) / us, 1);
}

static __always_inline u32 window_now(const struct flow *flow)
{
	return flow->start_w ? flow->start_w << 16 : flow->walk.w;
}

/* The window when what is acknowledged or lost now was sent: about a round trip ago. */
static __always_inline u32 window_at_sending(const struct flow *flow)
{
	u32 ago = epochs_per_rtt(flow);

	if (!flow->epochs)
		return window_now(flow);
	ago = min_u32(min_u32(ago, flow->epochs), HISTORY);
	return flow->history[(flow->epochs - ago) % HISTORY];
}

/* The walk goes on from where slow start got to. */
static __always_inline void walk_from_start(struct flow *flow)
{
	u32 w = flow->start_w;

	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		w /= epochs_per_rtt(flow);
	walk_set(&flow->walk, w << 16, 1);
}

static __always_inline void begin_round(struct flow *flow, const struct tcp_sock *tp)
{
	flow->cut = 1;
	flow->cut_delivered = tp->delivered;
}

/* Until the round trip is over the walk does not grow. */
static __always_inline void end_slow_start(struct flow *flow, const struct tcp_sock *tp)
{
	walk_from_start(flow);
	flow->start_w = 0;
	flow->credit = 0;
	begin_round(flow, tp);
	flow->ceiling = flow->walk.w;
}

/* Eq. 6, Verus, a while after the loss; a small window is cut and goes on. */
static __always_inline void lose_in_slow_start(struct flow *flow, const struct tcp_sock *tp)
{
	u32 left = (u64)flow->start_lost_w * START_FACTOR >> 32;

	flow->start_lost = 0;
	flow->start_w = max_u32(min_u32(left, flow->start_w), 1);
	if (flow->start_w > START_EXIT_LOSS)
		end_slow_start(flow, tp);
}

/* docs/spec/verus.md 5. */
static __always_inline void grow_in_slow_start(struct flow *flow, const struct tcp_sock *tp,
					       u32 rtt_us, u32 acked, bool app_limited)
{
	u32 base = flow->start_base_us, exit;

	if (!base || rtt_us < base)
		base = flow->start_base_us = rtt_us;
	exit = base > START_EXIT_US ? START_EXIT_US : min_u32(START_EXIT_US, START_EXIT_RATIO * base);
	/* On a path whose base RTT is above the limit every RTT exceeds it. */
	exit = max_u32(exit, base + base / 2);
	if (rtt_us > exit) {
		flow->start_w = max_u32((u64)window_at_sending(flow) * START_FACTOR >> 32, 1);
		return end_slow_start(flow, tp);
	}
	if (!app_limited)
		flow->start_w = min_u32(flow->start_w + acked, START_MAX);
}

/* One epoch that ended at `end`: docs/spec/mdi.md 6. */
static __always_inline void run_epoch(struct flow *flow, const struct tcp_sock *tp, u64 end,
				      u32 in_flight)
{
	u32 acked = flow->epoch_max_us != 0;
	u32 delay = flow->epoch_max_us;
	u64 silence = 0;

	if (flow->start_lost && end >= flow->start_lost)
		lose_in_slow_start(flow, tp);
	if (in_flight && end > flow->quiet_since)
		silence = (end - flow->quiet_since) / NSEC_PER_USEC;
	if (acked)
		flow->d1_us = delay;
	else
		delay = max_u32(flow->d1_us, silence > 0xffffffff ? 0xffffffff : silence);
	flow->epoch_max_us = 0;
	walk_step(&flow->walk, delay, acked);
	if (flow->start_w)
		walk_from_start(flow);
	else if (flow->ceiling && flow->walk.w > flow->ceiling)
		walk_set(&flow->walk, flow->ceiling, 0);
	flow->history[flow->epochs % HISTORY] = window_now(flow);
	flow->epochs++;
	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		flow->credit += walk_release(&flow->walk, 0, 0, 0);
	else
		/* What the epochs before allowed would be in flight by now. */
		flow->credit = walk_release(&flow->walk, flow->credit, in_flight + flow->credit,
					    epochs_per_rtt(flow));
}

/*
 * A window that less than half is used of says nothing about the path, and a sender that has data at
 * last must not send all of it at once (RFC 7661 section 1): it does not grow.
 */
static __always_inline void bound_by_use(struct flow *flow, const struct tcp_sock *tp, u32 before,
					 u32 in_flight)
{
	if (walk_header[WALK_KIND] == WALK_ABSOLUTE || flow->start_w)
		return;
	/* What was allowed with the last ack is in flight if there was data. */
	if (flow->walk.w > before && 2 * in_flight < tp->snd_cwnd)
		walk_set(&flow->walk, before, 0);
}

struct missed {
	struct flow *flow;
	struct sock *sk;
	u64 now;
	u32 in_flight;
};

static long one_epoch(u32 number, struct missed *missed)
{
	struct flow *flow = missed->flow;
	u64 end = flow->next_epoch;

	/* A sender that could send and did not waits for no ack: its silence is no delay. */
	if (end > missed->now || (!missed->in_flight && !flow->epoch_max_us))
		return 1;
	flow->next_epoch = end + epoch_ns();
	run_epoch(flow, tcp_sk(missed->sk), end, missed->in_flight);
	return 0;
}

/* The epochs that ended by now; `in_flight`: how many packets were, meanwhile. */
static void catch_up(struct sock *sk, struct flow *flow, u64 now, u32 in_flight)
{
	struct missed missed = { .flow = flow, .sk = sk, .now = now, .in_flight = in_flight };
	u32 before = flow->walk.w;

	if (now < flow->next_epoch)
		return;
	/* A sender with data has spent it, others do not save it up. */
	flow->credit = 0;
	if (flow->last_rtt_us)
		bpf_loop(MAX_MISSED, one_epoch, &missed, 0);
	bound_by_use(flow, tcp_sk(sk), before, in_flight);
	/* The schedule is absolute; what is left out is left out. */
	if (now >= flow->next_epoch)
		flow->next_epoch += ((now - flow->next_epoch) / epoch_ns() + 1) * epoch_ns();
}

/* docs/spec/mdi.md 8, its choice: the walk goes on from the smaller window. */
static __always_inline void reduce(struct flow *flow, const struct tcp_sock *tp, u64 now)
{
	u32 w;

	if (flow->start_w) {
		if (!flow->start_lost) {
			flow->start_lost = now + START_EXPIRY;
			flow->start_lost_w = window_at_sending(flow);
		}
		return;
	}
	if (flow->cut || walk_header[WALK_LOSS_FACTOR] >= WALK_PACKET)
		return;
	begin_round(flow, tp);
	flow->before_cut = flow->walk.w;
	w = (u64)window_at_sending(flow) * walk_header[WALK_LOSS_FACTOR] >> 16;
	walk_set(&flow->walk, min_u32(w, flow->walk.w), 0);
	flow->ceiling = flow->walk.w;
}

/* What has left since the last call has spent credit. */
static __always_inline void spend(struct flow *flow, const struct tcp_sock *tp)
{
	u32 sent = tp->data_segs_out - flow->sent;

	flow->credit = flow->credit > sent ? flow->credit - sent : 0;
	flow->sent = tp->data_segs_out;
}

/*
 * Where the release of a window is even, this much is in flight at the end of an epoch. Where acks come
 * in bursts more of it may be gone by then, and there may be no other ack to release anything.
 */
static __always_inline u32 least_in_flight(const struct flow *flow)
{
	u32 n = epochs_per_rtt(flow);

	if (walk_header[WALK_KIND] == WALK_ABSOLUTE)
		return 0;
	/* Within a round trip below an epoch there is nothing to portion. */
	if (n < 2)
		return flow->walk.w >> 16;
	return (u64)(flow->walk.w >> 16) * (n - 1) / n;
}

static __always_inline void set_cwnd(struct sock *sk, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 clamp = ((struct tcp_sock___mdi *)tp)->snd_cwnd_clamp;
	u64 rate, srtt_us = tp->srtt_us >> 3;
	u32 cwnd;

	if (flow->start_w)
		cwnd = flow->start_w;
	else
		cwnd = max_u32(packets_in_flight(tp) + flow->credit, least_in_flight(flow));
	/* Without a packet there is no ack, and the walk would learn nothing for ever. */
	cwnd = max_u32(cwnd, tp->lost_out ? MIN_CWND_LOSSES : MIN_CWND);
	cwnd = min_u32(cwnd, clamp);
	tp->snd_cwnd = cwnd;
	if (!srtt_us)
		return;
	/* Twice the window per round trip: what leaves is decided by acks, this sizes bursts. */
	rate = 2 * (u64)cwnd * tp->mss_cache * 1000000 / srtt_us;
	sk->sk_pacing_rate = rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

SEC("struct_ops/mdi_init")
void BPF_PROG(mdi_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;
	u64 number, mixed, now = bpf_ktime_get_ns();

	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	/* Without memory for the walk a small window is all there is. */
	if (!flow)
		return;
	number = __sync_fetch_and_add(&sockets, 1);
	if (model.seed)
		mixed = (model.seed + number) * 0x9e3779b97f4a7c15ull;
	else
		mixed = (u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	/* The socket may have been under this before. */
	__builtin_memset(flow, 0, __builtin_offsetof(struct flow, history));
	walk_begin(&flow->walk, mixed);
	flow->start_w = model.slow_start ? 1 : 0;
	flow->next_epoch = now + epoch_ns();
	flow->quiet_since = now;
	flow->sent = tp->data_segs_out;
	flow->credit = flow->walk.w >> 16;
	set_cwnd(sk, flow);
}

static __always_inline void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);
	u64 now = bpf_ktime_get_ns();
	u32 prior;

	if (!flow) {
		tp->snd_cwnd = MIN_CWND_LOSSES;
		return;
	}
	spend(flow, tp);
	catch_up(sk, flow, now, rs->prior_in_flight);
	if (rs->acked_sacked) {
		flow->quiet_since = now;
		prior = rs->prior_delivered;
		/* What is acknowledged left after the cut. */
		if (flow->cut && rs->delivered >= 0 && (s32)(prior - flow->cut_delivered) >= 0) {
			flow->cut = 0;
			flow->ceiling = 0;
		}
	}
	if (rs->rtt_us > 0) {
		u32 rtt = rs->rtt_us > 0xffffffff ? 0xffffffff : rs->rtt_us;

		flow->last_rtt_us = rtt;
		flow->epoch_max_us = max_u32(flow->epoch_max_us, rtt);
		if (flow->start_w)
			grow_in_slow_start(flow, tp, rtt, rs->acked_sacked, rs->is_app_limited);
	}
	if (rs->losses > 0)
		reduce(flow, tp, now);
	set_cwnd(sk, flow);
}

/* From Linux 6.10. */
SEC("struct_ops/mdi_control")
void BPF_PROG(mdi_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops/mdi_control_old")
void BPF_PROG(mdi_control_old, struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* After a timeout, docs/spec/mdi.md 8, its choice. */
static __always_inline void time_out(struct sock *sk, struct flow *flow, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);

	catch_up(sk, flow, now, 1);
	if (flow->start_w) {
		/* There was no ack yet: from the beginning. */
		if (!flow->last_rtt_us) {
			flow->start_w = 1;
			return;
		}
		walk_from_start(flow);
		flow->start_w = 0;
		flow->start_lost = 0;
	}
	if (!flow->before_cut)
		flow->before_cut = flow->walk.w;
	walk_set(&flow->walk, flow->walk.w / 2, 1);
	begin_round(flow, tp);
	flow->ceiling = 0;
	/* The packet that finds out whether the path is there again is up to the kernel. */
}

SEC("struct_ops/mdi_state")
void BPF_PROG(mdi_state, struct sock *sk, u8 state)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return;
	if (state == TCP_CA_Loss)
		time_out(sk, flow, bpf_ktime_get_ns());
	/* A mark of ECN, or a packet that this host itself had no room for. */
	if (state == TCP_CA_CWR)
		reduce(flow, tcp_sk(sk), bpf_ktime_get_ns());
	if (state == TCP_CA_Open)
		flow->before_cut = 0;
}

SEC("struct_ops/mdi_event")
void BPF_PROG(mdi_event, struct sock *sk, enum tcp_ca_event event)
{
	struct flow *flow = flow_of(sk);
	u64 now;

	if (!flow || event != CA_EVENT_TX_START)
		return;
	/* Into silence: the time before does not count. */
	now = bpf_ktime_get_ns();
	spend(flow, tcp_sk(sk));
	catch_up(sk, flow, now, 0);
	flow->quiet_since = now;
	set_cwnd(sk, flow);
}

SEC("struct_ops/mdi_ssthresh")
u32 BPF_PROG(mdi_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

/* Nothing was lost after all, so the cut is taken back. */
SEC("struct_ops/mdi_undo")
u32 BPF_PROG(mdi_undo, struct sock *sk)
{
	struct flow *flow = flow_of(sk);

	if (!flow)
		return tcp_sk(sk)->snd_cwnd;
	if (flow->before_cut > flow->walk.w)
		walk_set(&flow->walk, flow->before_cut, 0);
	flow->before_cut = 0;
	flow->ceiling = 0;
	return max_u32(window_now(flow) >> 16, MIN_CWND_LOSSES);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops mdi_ack_args = {
	.name = "cellpace_mdi",
	.init = (void *)mdi_init,
	.ssthresh = (void *)mdi_ssthresh,
	.undo_cwnd = (void *)mdi_undo,
	.set_state = (void *)mdi_state,
	.cwnd_event = (void *)mdi_event,
	.cong_control = (void *)mdi_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops mdi_rs_args = {
	.name = "cellpace_mdi",
	.init = (void *)mdi_init,
	.ssthresh = (void *)mdi_ssthresh,
	.undo_cwnd = (void *)mdi_undo,
	.set_state = (void *)mdi_state,
	.cwnd_event = (void *)mdi_event,
	.cong_control = (void *)mdi_control_old,
};

/*
 * For tests: the walk of above through events that the tester puts in, one after the other.
 */
struct step {
	u32 value;  /* a delay in us, or a window */
	u32 detail; /* acked, or forget */
	u32 set;    /* whether it is a window */
	u32 sent;   /* packets of the credit that have left */
	u32 in_flight;
	u32 epochs; /* in a round trip */
	u32 window; /* what came out, with the credit */
	u32 credit;
};

#define MAX_STEPS 4096

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_STEPS);
	__type(key, __u32);
	__type(value, struct step);
} steps SEC(".maps");

struct walk test_walk;
u32 test_credit;

static long one_step(u32 number, void *nothing)
{
	struct step *step = bpf_map_lookup_elem(&steps, &number);

	if (!step)
		return 1;
	if (step->set) {
		walk_set(&test_walk, step->value, step->detail);
	} else {
		walk_step(&test_walk, step->value, step->detail);
		test_credit = walk_release(&test_walk, test_credit - step->sent, step->in_flight,
					   step->epochs);
	}
	step->window = test_walk.w;
	step->credit = test_credit;
	return 0;
}

struct test_args {
	u64 seed;
	u32 steps;
};

SEC("syscall")
int mdi_test(struct test_args *args)
{
	walk_begin(&test_walk, args->seed);
	test_credit = 0;
	return bpf_loop(args->steps, one_step, 0, 0);
}
