// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Pace in the kernel: a congestion control of its own, with no process in user space. The law is
 * pace.h; here is what TCP has for it.
 *
 *  - A packet of the law is a packet of TCP, and its stamp is what had been delivered when it was sent,
 *    which TCP keeps for its rate samples. TCP names one packet of each ack, the one sent last.
 *  - TCP does not know when packets arrived, so RTTs count with what the acks took.
 *  - Losses are counted as TCP declares them, and reductions by deliveries: a packet that has been sent
 *    after one is known by its stamp.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "native.h"

#define PACE_FN static __attribute__((noinline))
#include "pace.h"

char _license[] SEC("license") = "GPL";

/* Written by the loader, and by `cellpace kernel install` while connections run. */
struct native_settings {
	struct native_about about;
	struct pace_settings pace;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct native_settings);
} settings SEC(".maps");

struct flow {
	struct pace pace;
	u64 newest; /* packets delivered when the packet was sent that arrived last */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

static __always_inline struct flow *flow_of(struct sock *sk)
{
	return bpf_sk_storage_get(&flows, sk, 0, 0);
}

static __always_inline const struct pace_settings *settings_now(void)
{
	u32 zero = 0;
	struct native_settings *now = bpf_map_lookup_elem(&settings, &zero);

	return now ? &now->pace : 0;
}

/* The clock by which TCP measures RTTs. */
static __always_inline u64 now_ns(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp * 1000;
}

/* Packets are numbered by what had been delivered when they were sent. */
static __always_inline struct pace_loss congestion(const struct flow *flow,
						   const struct tcp_sock *tp, u64 packets, s64 rtt)
{
	struct pace_loss loss = {
		.now = now_ns(tp),
		.amount = packets,
		.newest = flow->newest,
		.next = flow->pace.delivered,
		.rtt = rtt > 0 ? (u64)rtt : tp->srtt_us >> 3,
	};

	return loss;
}

static __always_inline void apply(struct sock *sk, const struct pace *pace,
				  const struct pace_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = native_window(tp, pace->window / PACE_ONE);
	/* The rate in packets: sizes of the law are in packets here. */
	native_pace(sk, pace_pacing_rate(pace, set) * tp->mss_cache, pace->base.base);
}

static __always_inline void take_ack(struct flow *flow, const struct pace_settings *set,
				     const struct tcp_sock *tp, const struct rate_sample *rs)
{
	u64 rtt = rs->rtt_us > 0 ? (u64)rs->rtt_us : 0;
	struct pace_ack ack = {
		.now = now_ns(tp),
		.bytes = rs->acked_sacked,
		.rtt = rtt,
		.sent_at = pace_less(now_ns(tp), rtt * 1000),
		.has_packet = rtt > 0 && rs->delivered >= 0,
		.app_limited = rs->is_app_limited,
	};

	/* Both counts go round in 32 bits. */
	ack.stamp = pace_less(flow->pace.delivered + ack.bytes,
			      (u32)(tp->delivered - rs->prior_delivered));
	ack.newest = ack.stamp;
	if (ack.has_packet)
		flow->newest = pace_max(flow->newest, ack.stamp);
	pace_on_ack(&flow->pace, set, &ack);
}

static __always_inline void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	const struct pace_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set) {
		tp->snd_cwnd = NATIVE_LEAST;
		return;
	}
	if (rs->acked_sacked)
		take_ack(flow, set, tp, rs);
	if (rs->losses > 0) {
		struct pace_loss loss = congestion(flow, tp, rs->losses, rs->rtt_us);

		pace_on_loss(&flow->pace, set, &loss);
	}
	apply(sk, &flow->pace, set);
}

/* From Linux 6.10. */
SEC("struct_ops/pace_control")
void BPF_PROG(pace_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops/pace_control_old")
void BPF_PROG(pace_control_old, struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

SEC("struct_ops/pace_init")
void BPF_PROG(pace_init, struct sock *sk)
{
	const struct pace_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	/* Without memory for the law a small window is all there is. */
	if (!flow || !set)
		return;
	pace_begin(&flow->pace, set, now_ns(tp));
	flow->newest = 0;
	/* A connection that runs already keeps its window: slow start goes on from there. */
	if (tp->delivered > 1)
		flow->pace.window = pace_max(flow->pace.window, (u64)tp->snd_cwnd << 16);
	apply(sk, &flow->pace, set);
}

SEC("struct_ops/pace_state")
void BPF_PROG(pace_state, struct sock *sk, u8 state)
{
	const struct pace_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set)
		return;
	if (state == TCP_CA_Loss)
		pace_on_timeout(&flow->pace, set, now_ns(tp));
	/* A mark of ECN, or a packet that this host itself had no room for: once per round trip. */
	if (state == TCP_CA_CWR) {
		struct pace_loss mark = congestion(flow, tp, 1, 0);

		pace_on_mark(&flow->pace, set, &mark);
	}
	if (state == TCP_CA_Open)
		flow->pace.has_before_timeout = 0;
	apply(sk, &flow->pace, set);
}

SEC("struct_ops/pace_event")
void BPF_PROG(pace_event, struct sock *sk, enum tcp_ca_event event)
{
	const struct pace_settings *set = settings_now();
	struct flow *flow = flow_of(sk);

	if (!flow || !set || event != CA_EVENT_TX_START)
		return;
	pace_on_sent(&flow->pace, set, now_ns(tcp_sk(sk)), true);
	apply(sk, &flow->pace, set);
}

SEC("struct_ops/pace_ssthresh")
u32 BPF_PROG(pace_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

/* The timeout was none: what it took comes back. Losses took nothing that could. */
SEC("struct_ops/pace_undo")
u32 BPF_PROG(pace_undo, struct sock *sk)
{
	const struct pace_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set)
		return tp->snd_cwnd;
	pace_on_spurious_timeout(&flow->pace, set, now_ns(tp));
	return native_window(tp, flow->pace.window / PACE_ONE);
}

SEC("struct_ops/pace_segments")
u32 BPF_PROG(pace_segments, struct sock *sk)
{
	return native_least_burst(sk);
}

#define CALLBACKS                                                                                  \
	.name = "cellpace_pace", .init = (void *)pace_init, .ssthresh = (void *)pace_ssthresh,     \
	.undo_cwnd = (void *)pace_undo, .set_state = (void *)pace_state,                           \
	.cwnd_event = (void *)pace_event, .min_tso_segs = (void *)pace_segments

SEC(".struct_ops.link")
struct tcp_congestion_ops pace_ack_args = {
	CALLBACKS,
	.cong_control = (void *)pace_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops pace_rs_args = {
	CALLBACKS,
	.cong_control = (void *)pace_control_old,
};

static __always_inline u16 phase_of(const struct pace *pace)
{
	if (pace->startup)
		return NATIVE_SLOW_START;
	if (pace->base.searching)
		return NATIVE_SEARCH;
	return pace->rival_window ? NATIVE_RIVALS : NATIVE_STEADY;
}

/* Writes down each socket; loaded by who looks. */
SEC("?iter/bpf_sk_storage_map")
int pace_show(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct native_socket is = {};
	struct flow *flow = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp;

	if (!sk || !flow)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 0;
	native_describe(&is, tp);
	is.phase = phase_of(&flow->pace);
	is.base_us = flow->pace.base.base;
	is.queue_us = flow->pace.queue;
	is.rate = flow->pace.rate.rate / PACE_ONE * is.packet;
	bpf_seq_write(ctx->meta->seq, &is, sizeof(is));
	return 0;
}
