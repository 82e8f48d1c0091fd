// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * The kernel driver: a TCP congestion control whose window user space sets, per socket.
 *
 * A socket is under control while there is an entry for its cookie in `controls` whose slot still
 * belongs to the process that wrote it and has a heartbeat. Else, and also when nobody ever asked
 * for control, it goes by RFC 5681: so everybody may select this congestion control.
 *
 * It has `cong_control`, so the kernel's own proportional rate reduction, its restart after idle
 * and its pacing rate are off: window and pacing are ours in every state.
 */
#include "kernel.h"
#include "layout.h"
#include <bpf/bpf_helpers.h>
#include "alive.h"
#include "maps.h"
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

/* Mapped by the loader and by every client. */
struct shared shared SEC(".data.shared");

struct controls_map controls SEC(".maps");

struct ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
};

/* Each slot's records; the loader makes the rings, of whatever size. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, SLOTS);
	__type(key, u32);
	__array(values, struct ring);
} rings SEC(".maps");

struct prompted_map prompted SEC(".maps");

enum mode { MODE_NEW = 0, MODE_CONTROLLED, MODE_SELF };

/* In the socket, where congestion controls keep what is theirs: 104 bytes. */
struct state {
	u32 mode;
	u32 ca_state;
	u32 acked; /* packets since the window last grew by one */
	u32 before; /* window before TCP's own last reduction, in packets; 0: before that, control */
	u64 last_ack; /* in ns */
	u32 was_controlled;
	u32 prompt; /* whether each packet is acknowledged at once */
};

static inline struct state *state_of(struct sock *sk)
{
	return (struct state *)inet_csk(sk)->icsk_ca_priv;
}

static inline u64 cookie_of(struct sock *sk)
{
	return (u64)sk->__sk_common.skc_cookie.counter;
}

/* The entry of a socket, also when its controller is dead. */
static inline struct control *control_of(struct sock *sk)
{
	u64 cookie = cookie_of(sk);

	/* A socket that nobody asked for its cookie has none. */
	return cookie ? bpf_map_lookup_elem(&controls, &cookie) : 0;
}

static inline bool alive(const struct control *control)
{
	return has_heartbeat(&shared, control);
}

/* Without a packet with PSH for so long, the device or the program on it may be another. */
#define PROMPT_NS 1000000000ULL

static inline bool is_prompt(struct sock *sk)
{
	u64 cookie = cookie_of(sk);
	u64 *last = bpf_map_lookup_elem(&prompted, &cookie);

	/* Another CPU may have read the clock for the packet after us. */
	return last && (s64)(bpf_ktime_get_ns() - *last) < (s64)PROMPT_NS;
}

#define MAX_PACKETS 0x3fffffff
/* While fewer are on their way, a delayed ack may be all there is to learn from. */
#define FEW_PACKETS 8

/*
 * The window that lets no more leave than up to the limit. Of few packets an even number, and at least
 * two, as below: a response that a program writes in two pieces is not to wait for the ack of the first,
 * which a receiver that has nothing to say delays, prompt or not.
 * What was lost may always be sent again, two for each ack (a packet for a packet that left, and
 * one that the path has room for since it lost some).
 */
static inline u32 packets_to(u64 limit, u32 mss, const struct tcp_sock *tp, bool even)
{
	u64 sent = tp->bytes_acked + (tp->snd_nxt - tp->snd_una);
	u64 room = limit > sent ? (limit - sent) / mss : 0;
	u32 out = tp->packets_out;
	u32 in_flight = packets_in_flight(tp);

	if (room > MAX_PACKETS / 2)
		room = MAX_PACKETS / 2;
	if (room > 0 && out + room < FEW_PACKETS)
		room = ((out + (u32)room) & (even ? ~1U : ~0U)) - out;
	if (tp->lost_out > tp->retrans_out)
		room = max_u32((u32)room, 2);
	return max_u32(in_flight + (u32)room, 2);
}

/*
 * Whole packets below the window, at least two. Few ones are an even number: receivers acknowledge
 * every second packet, and the one that is left over is acknowledged a delayed ack's 40 ms later,
 * which a controller would take for the path's delay. Between two even numbers what is in effect
 * stays. Not with prompt acks, of which each packet has one.
 */
static inline u32 window_packets(const struct control *control, const struct tcp_sock *tp,
				 bool even)
{
	u32 mss = max_u32(tp->mss_cache, 1);
	u64 packets = control->window / mss;

	if (control->limit)
		return packets_to(control->limit, mss, tp, even);
	if (packets > MAX_PACKETS)
		packets = MAX_PACKETS;
	if (even && packets < FEW_PACKETS && packets & 1)
		packets += tp->snd_cwnd > packets ? 1 : -1;
	return max_u32((u32)packets, 2);
}

/* Never above what the program itself asked for by SO_MAX_PACING_RATE. */
static inline void pace(struct sock *sk, u64 rate)
{
	u64 most = sk->sk_max_pacing_rate;

	if (rate && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	sk->sk_pacing_rate = rate && rate < most ? rate : most;
}

/*
 * TCP sizes its bursts by the pacing rate, also where nobody paces by it: what the path takes in a
 * millisecond at twice the window in an RTT, as with the kernel's own congestion controls.
 */
static inline void size_bursts(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 srtt_us = tp->srtt_us >> 3;
	u64 rate = srtt_us ? 2000000ULL * tp->snd_cwnd * tp->mss_cache / srtt_us : 0;

	if (rate && rate < sk->sk_max_pacing_rate && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_rate = rate;
}

/* RFC 6928 section 2. */
#define INITIAL_WINDOW 10
/* RFC 6298 section 2.4: no timeout is shorter. */
#define IDLE_NS 1000000000ULL

/*
 * From control to RFC 5681: what is in the network is known to fit, the rest of the window not.
 */
static inline void enter_self(struct sock *sk, struct state *state)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (state->mode == MODE_CONTROLLED) {
		u32 fits = max_u32(packets_in_flight(tp), INITIAL_WINDOW);
		u32 window = min_u32(tp->snd_cwnd, fits);

		tp->snd_cwnd = window;
		tp->snd_ssthresh = window;
		state->before = 0;
		state->was_controlled = 1;
		pace(sk, 0);
		__sync_fetch_and_add(&shared.fallbacks, 1);
	}
	state->acked = 0;
	state->mode = MODE_SELF;
}

static inline void hold(struct sock *sk, struct state *state, const struct control *control)
{
	struct tcp_sock *tp = tcp_sk(sk);

	state->mode = MODE_CONTROLLED;
	state->prompt = is_prompt(sk);
	tp->snd_cwnd = window_packets(control, tp, !state->prompt);
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	pace(sk, control->pacing);
	if (!control->pacing)
		size_bursts(sk);
}

/*
 * The window as user space wants it; whether it does.
 */
static inline bool controlled(struct sock *sk, const struct control *control)
{
	struct state *state = state_of(sk);

	if (control && control->policy == POLICY_HOLD && alive(control)) {
		hold(sk, state, control);
		return true;
	}
	if (state->mode != MODE_SELF)
		enter_self(sk, state);
	return false;
}

/* RFC 5681 section 3.1, in packets as the kernel counts. */
static inline u32 grown(const struct tcp_sock *tp, struct state *state,
			const struct rate_sample *rs)
{
	u32 window = tp->snd_cwnd;
	u32 acked = rs->acked_sacked;

	/* What a recovery sends is what the halved window allows. */
	if (state->ca_state == TCP_CA_CWR || state->ca_state == TCP_CA_Recovery)
		return window;
	if (window < tp->snd_ssthresh) {
		/* Equation 2, with RFC 3465's count of bytes; not while the program sends less. */
		if (2 * rs->prior_in_flight < window)
			return window;
		return min_u32(window + acked, tp->snd_ssthresh);
	}
	/* Equation 3: a packet more each round trip. */
	if (rs->prior_in_flight < window)
		return window;
	state->acked += acked;
	if (state->acked < window)
		return window;
	state->acked -= window;
	return window + 1;
}

static inline void go_alone(struct sock *sk, const struct control *control,
			    const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	u32 window;

	/*
	 * Under control there is no threshold. TCP has brought that back with a reduction that it
	 * has undone, and would be in slow start for ever.
	 */
	if (state->was_controlled && tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH)
		tp->snd_ssthresh = max_u32(tp->snd_cwnd, 2);
	window = grown(tp, state, rs);
	/* What a dead controller wanted last is no bound: it may be next to nothing. */
	if (control && control->policy == POLICY_FOLLOW && alive(control))
		window = min_u32(window, window_packets(control, tp, true));
	/* A timeout's window of one packet (section 3.1) may stand. */
	tp->snd_cwnd = max_u32(window, 1);
}

static inline void *reserve(const struct control *control)
{
	u32 number = control->slot;
	struct record *record;
	struct slot *slot;
	void *ring;

	if (number >= SLOTS)
		return 0;
	slot = &shared.slot[number];
	/* What the slot's owner before wanted to know is nothing for this one. */
	if (!control->owner || slot->owner != control->owner)
		return 0;
	ring = bpf_map_lookup_elem(&rings, &number);
	if (!ring)
		return 0;
	record = bpf_ringbuf_reserve(ring, sizeof(*record), 0);
	if (!record)
		__sync_fetch_and_add(&slot->dropped, 1);
	return record;
}

/* Waking somebody costs more than all the rest here. */
static inline u64 notice(const struct control *control, u64 now)
{
	u32 number = control->slot;

	return number < SLOTS && now < shared.slot[number].resting_until ? BPF_RB_NO_WAKEUP : 0;
}

/*
 * The kernel keeps the packet behind the last one that was selectively acknowledged; none when that
 * was the last one sent.
 */
static inline u32 highest_sacked(struct tcp_sock *tp)
{
	struct sk_buff *behind = tp->highest_sack;
	u32 seq = tp->snd_nxt;

	if (!tp->sacked_out)
		return 0;
	if (behind)
		seq = ((struct tcp_skb_cb *)behind->cb)->seq;
	return seq - tp->snd_una;
}

static inline void report(struct sock *sk, const struct control *control, u8 kind,
			  const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct state *state = state_of(sk);
	struct record *record = reserve(control);
	u8 flags = state->mode == MODE_SELF ? RECORD_FALLBACK : 0;

	if (!record)
		return;
	__builtin_memset(record, 0, sizeof(*record));
	record->cookie = cookie_of(sk);
	record->time = bpf_ktime_get_ns();
	record->bytes_acked = tp->bytes_acked;
	record->kind = kind;
	record->state = state->ca_state;
	record->delivered = tp->delivered;
	record->retransmitted = tp->total_retrans;
	record->mss = tp->mss_cache;
	record->cwnd = tp->snd_cwnd;
	record->unsent = tp->write_seq - tp->snd_nxt;
	record->outstanding = tp->snd_nxt - tp->snd_una;
	record->sacked = tp->sacked_out;
	record->highest_sacked = highest_sacked(tp);
	if (rs) {
		record->acked = rs->acked_sacked;
		record->rtt_us = rs->rtt_us > 0 ? rs->rtt_us : 0;
	}
	flags |= state->prompt ? RECORD_PROMPT : 0;
	record->flags = flags;
	bpf_ringbuf_submit(record, notice(control, record->time));
}

static inline void on_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct control *control = control_of(sk);

	if (!controlled(sk, control))
		go_alone(sk, control, rs);
	state_of(sk)->last_ack = bpf_ktime_get_ns();
	if (control)
		report(sk, control, RECORD_ACK, rs);
}

/* From Linux 6.10. */
SEC("struct_ops/cong_control")
void BPF_PROG(cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

/* Before Linux 6.10. */
SEC("struct_ops/cong_control_old")
void BPF_PROG(cong_control_old, struct sock *sk, const struct rate_sample *rs)
{
	on_ack(sk, rs);
}

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	struct state *state = state_of(sk);

	state->mode = MODE_NEW;
	state->ca_state = TCP_CA_Open;
	state->acked = 0;
	state->before = 0;
	state->was_controlled = 0;
	state->last_ack = bpf_ktime_get_ns();
	pace(sk, 0);
	__sync_fetch_and_add(&shared.sockets, 1);
}

SEC("struct_ops/release")
void BPF_PROG(release, struct sock *sk)
{
	struct control *control = control_of(sk);
	u64 cookie = cookie_of(sk);

	__sync_fetch_and_add(&shared.sockets, -1);
	bpf_map_delete_elem(&prompted, &cookie);
	if (!control)
		return;
	report(sk, control, RECORD_RELEASE, 0);
	bpf_map_delete_elem(&controls, &cookie);
}

/* RFC 5681 equation 4: half of what is outstanding. Called before the window is cut. */
SEC("struct_ops/ssthresh")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (controlled(sk, control_of(sk)))
		return TCP_INFINITE_SSTHRESH;
	state_of(sk)->before = tp->snd_cwnd;
	return max_u32(min_u32(tp->snd_cwnd, tp->packets_out) >> 1, 2);
}

/*
 * A retransmission was not needed: the window that it cost comes back. Not tp->prior_cwnd, which may
 * be a window of a controller that is gone.
 */
SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (controlled(sk, control_of(sk)))
		return tp->snd_cwnd;
	return max_u32(tp->snd_cwnd, state_of(sk)->before);
}

SEC("struct_ops/set_state")
void BPF_PROG(set_state, struct sock *sk, u8 next)
{
	struct control *control = control_of(sk);
	struct state *state = state_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	state->ca_state = next;
	/*
	 * A timeout has set the window to one packet (RFC 5681 section 3.1) before it calls this. A
	 * recovery of losses goes on with the halved window from here (section 3.2, with the pipe of
	 * RFC 6675 in place of inflating the window), which the kernel leaves to us.
	 */
	if (!controlled(sk, control) && (next == TCP_CA_Recovery || next == TCP_CA_CWR)) {
		tp->snd_cwnd = max_u32(min_u32(tp->snd_cwnd, tp->snd_ssthresh), 2);
		state->acked = 0;
	}
	if (control)
		report(sk, control, RECORD_STATE, 0);
}

SEC("struct_ops/cwnd_event")
void BPF_PROG(cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* The first packet after idle: the window may have changed meanwhile. */
	if (event != CA_EVENT_TX_START || controlled(sk, control_of(sk)))
		return;
	/* RFC 5681 section 4.1 */
	if (bpf_ktime_get_ns() - state_of(sk)->last_ack > IDLE_NS)
		tp->snd_cwnd = min_u32(tp->snd_cwnd, INITIAL_WINDOW);
}

/*
 * The kernel asks this whenever it is about to send, before it looks at the window: so a window
 * that has grown is in effect with the program's next write, and when it is told to push what
 * waits, and not only with an acknowledgment, for which a round trip may have to pass.
 */
SEC("struct_ops/min_tso_segs")
u32 BPF_PROG(min_tso_segs, struct sock *sk)
{
	/*
	 * What leaves in one piece has one PSH, at its end, and so one prompt ack. Of a slow path,
	 * which takes less than two packets in a millisecond, each packet is to have its own.
	 */
	if (controlled(sk, control_of(sk)) && state_of(sk)->prompt)
		return 1;
	/* The kernel's default of net.ipv4.tcp_min_tso_segs. */
	return 2;
}

/* The loader creates one of the two, and writes the names. */
#define CALLBACKS                                                                                  \
	.name = "cellpace", .flags = TCP_CONG_NON_RESTRICTED, .init = (void *)init,                \
	.release = (void *)release, .ssthresh = (void *)ssthresh, .undo_cwnd = (void *)undo_cwnd,  \
	.set_state = (void *)set_state, .cwnd_event = (void *)cwnd_event,        \
	.min_tso_segs = (void *)min_tso_segs

SEC(".struct_ops")
struct tcp_congestion_ops ack_args = {
	CALLBACKS,
	.cong_control = (void *)cong_control,
};

SEC(".struct_ops")
struct tcp_congestion_ops rs_args = {
	CALLBACKS,
	.cong_control = (void *)cong_control_old,
};
