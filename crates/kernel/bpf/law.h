/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * A law as a congestion control of the kernel, with no process in user space: the maps and the callbacks. The
 * file that includes this has struct law and struct law_settings, and the hooks
 *
 *   law_begin, law_on_ack, law_on_loss, law_on_mark, law_on_idle, law_on_timeout, law_on_undo
 *   law_window (packets), law_pacing (packets per second), law_base (us), law_starts (slow start), law_show
 *   law_pause (ns without an ack after which law_on_idle has something to do)
 *
 * What TCP has for it:
 *
 *  - A packet of the law is a packet of TCP, and its stamp is what had been delivered when it was sent,
 *    which TCP keeps for its rate samples. TCP names one packet of each ack, the one sent last.
 *  - TCP does not know when packets arrived, so RTTs count with what the acks took.
 *  - Losses are counted as TCP declares them. Packets are numbered by their stamps.
 */
#ifndef CELLPACE_LAW_H
#define CELLPACE_LAW_H

/* Written by the loader, and by `cellpace kernel install` while connections run. */
struct native_settings {
	struct native_about about;
	struct law_settings law;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct native_settings);
} settings SEC(".maps");

struct flow {
	struct law law;
	u64 delivered; /* packets */
	u64 newest;    /* the largest stamp of a packet that has arrived */
	u32 timed_out;
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

static __always_inline const struct law_settings *settings_now(void)
{
	u32 zero = 0;
	struct native_settings *now = bpf_map_lookup_elem(&settings, &zero);

	return now ? &now->law : 0;
}

/* The clock by which TCP measures RTTs. */
static __always_inline u64 now_ns(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp * 1000;
}

static __always_inline void apply(struct sock *sk, const struct flow *flow,
				  const struct law_settings *set)
{
	struct tcp_sock *tp = tcp_sk(sk);

	bool paced = native_is_paced(sk, law_base(&flow->law));

	tp->snd_cwnd = native_window(tp, law_window(&flow->law));
	native_pace(sk, paced ? law_pacing(&flow->law, set) * tp->mss_cache : native_unpaced_rate(tp), paced);
}

static __always_inline void take_ack(struct flow *flow, const struct law_settings *set,
				     const struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct law_ack ack = {
		.now = now_ns(tp),
		.packets = rs->acked_sacked,
		.rtt = rs->rtt_us > 0 && rs->delivered >= 0 ? (u64)rs->rtt_us : 0,
		.app_limited = rs->is_app_limited && !(law_starts(&flow->law) && native_fills_window(tp)),
	};
	/* Both counts go round in 32 bits. */
	u64 flight = (u32)(tp->delivered - rs->prior_delivered);

	flow->delivered += ack.packets;
	ack.delivered = flow->delivered;
	ack.stamp = flow->delivered > flight ? flow->delivered - flight : 0;
	if (rs->delivered >= 0 && ack.stamp > flow->newest)
		flow->newest = ack.stamp;
	ack.newest = flow->newest;
	law_on_ack(&flow->law, set, &ack);
}

static __always_inline struct law_loss congestion(const struct flow *flow,
						  const struct tcp_sock *tp, u64 packets, s64 rtt)
{
	struct law_loss loss = {
		.now = now_ns(tp),
		.packets = packets,
		.newest = flow->newest,
		.next = flow->delivered,
		.rtt = rtt > 0 ? (u64)rtt : tp->srtt_us >> 3,
	};

	return loss;
}

static __always_inline void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	const struct law_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set) {
		tp->snd_cwnd = NATIVE_LEAST;
		return;
	}
	if (rs->acked_sacked)
		take_ack(flow, set, tp, rs);
	if (rs->losses > 0) {
		struct law_loss loss = congestion(flow, tp, rs->losses, rs->rtt_us);

		law_on_loss(&flow->law, set, &loss);
	}
	apply(sk, flow, set);
}

/* From Linux 6.10. */
SEC("struct_ops/law_control")
void BPF_PROG(law_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops/law_control_old")
void BPF_PROG(law_control_old, struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

SEC("struct_ops/law_init")
void BPF_PROG(law_init, struct sock *sk)
{
	const struct law_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow;

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	/* Without memory for the law a small window is all there is. */
	if (!flow || !set)
		return;
	/* A connection that runs already keeps its window: slow start goes on from there. */
	law_begin(&flow->law, set, now_ns(tp), tp->delivered > 1 ? tp->snd_cwnd : 0);
	flow->delivered = 0;
	flow->newest = 0;
	flow->timed_out = 0;
	apply(sk, flow, set);
}

SEC("struct_ops/law_state")
void BPF_PROG(law_state, struct sock *sk, u8 state)
{
	const struct law_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set)
		return;
	if (state == TCP_CA_Loss) {
		flow->timed_out = 1;
		law_on_timeout(&flow->law, set, now_ns(tp));
	}
	/* A mark of ECN, or a packet that this host itself had no room for: once per round trip. */
	if (state == TCP_CA_CWR) {
		struct law_loss mark = congestion(flow, tp, 1, 0);

		law_on_mark(&flow->law, set, &mark);
	}
	if (state == TCP_CA_Open)
		flow->timed_out = 0;
	apply(sk, flow, set);
}

SEC("struct_ops/law_event")
void BPF_PROG(law_event, struct sock *sk, enum tcp_ca_event event)
{
	const struct law_settings *set = settings_now();
	struct flow *flow;

	/* Each request of a kept connection begins with nothing in flight: most pauses are short. */
	if (event != CA_EVENT_TX_START || !set || native_pause(tcp_sk(sk)) < law_pause(set))
		return;
	flow = flow_of(sk);
	if (!flow)
		return;
	law_on_idle(&flow->law, set, now_ns(tcp_sk(sk)));
	apply(sk, flow, set);
}

SEC("struct_ops/law_ssthresh")
u32 BPF_PROG(law_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

/* The timeout was none: what it took comes back. Losses took nothing that could. */
SEC("struct_ops/law_undo")
u32 BPF_PROG(law_undo, struct sock *sk)
{
	const struct law_settings *set = settings_now();
	struct tcp_sock *tp = tcp_sk(sk);
	struct flow *flow = flow_of(sk);

	if (!flow || !set)
		return tp->snd_cwnd;
	if (flow->timed_out)
		law_on_undo(&flow->law, set, now_ns(tp));
	flow->timed_out = 0;
	return native_window(tp, law_window(&flow->law));
}

SEC("struct_ops/law_segments")
u32 BPF_PROG(law_segments, struct sock *sk)
{
	return native_least_burst(sk);
}

/* The loader writes the name and creates one of the two. */
#define CALLBACKS                                                                                  \
	.init = (void *)law_init, .ssthresh = (void *)law_ssthresh,                                \
	.undo_cwnd = (void *)law_undo, .set_state = (void *)law_state,                             \
	.cwnd_event = (void *)law_event, .min_tso_segs = (void *)law_segments

SEC(".struct_ops.link")
struct tcp_congestion_ops ack_args = {
	CALLBACKS,
	.cong_control = (void *)law_control,
};

SEC(".struct_ops.link")
struct tcp_congestion_ops rs_args = {
	CALLBACKS,
	.cong_control = (void *)law_control_old,
};

/* Writes down each socket; loaded by `cellpace kernel watch`. */
SEC("?iter/bpf_sk_storage_map")
int law_shown(struct bpf_iter__bpf_sk_storage_map *ctx)
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
	law_show(&flow->law, &is);
	bpf_seq_write(ctx->meta->seq, &is, sizeof(is));
	return 0;
}

#endif
