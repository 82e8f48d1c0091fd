/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What congestion controls that run in the kernel by themselves share: what is known of an installation,
 * and how a window and a pacing rate become TCP's.
 */
#ifndef CELLPACE_NATIVE_H
#define CELLPACE_NATIVE_H

#include "numbers.h"

/* What the loader says of it, for `cellpace kernel status` and `remove`; see crates/kernel/src/native. */
struct native_about {
	u64 magic;
	u64 program; /* which it is */
	u64 installed_at;    /* seconds since 1970 */
	char controller[64]; /* as on the command line */
	char version[16];    /* of the cellpace that installed it */
	char before[16];     /* the default of this network namespace before `--default`; empty: untouched */
};

/* An acknowledgment, in packets. */
struct law_ack {
	u64 now;
	u64 packets;
	u64 rtt;       /* us, of the packet sent last; 0: none */
	u64 stamp;     /* packets delivered when that left */
	u64 newest;    /* the largest stamp up to now */
	u64 delivered; /* up to now, with these */
	bool app_limited;
};

/* Packets lost or marked. */
struct law_loss {
	u64 now;
	u64 packets;
	u64 newest;
	u64 next;
	u64 rtt; /* the latest one, us */
};

/* A window of less cannot tell a loss from a delayed ack. */
#define NATIVE_LEAST 2
#define NATIVE_IPV6 10
/* While fewer are on their way, a delayed ack may be all there is to learn from. */
#define NATIVE_FEW 8

#define __bpf_md_ptr(type, name) type name __attribute__((aligned(8)))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct tcp_sock___native {
	u32 snd_cwnd_clamp;
	u32 max_packets_out;
	u64 delivered_mstamp;
};
#pragma clang attribute pop

/*
 * Whole packets, at least two. Few ones are an even number: receivers acknowledge every second packet,
 * and the one that is left over is acknowledged a delayed ack's 40 ms later, which the law would take
 * for the path's delay.
 */
static __always_inline u32 native_window(const struct tcp_sock *tp, u64 packets)
{
	u32 clamp = ((const struct tcp_sock___native *)tp)->snd_cwnd_clamp;
	u32 window = packets > clamp ? clamp : packets;

	if (window < NATIVE_FEW && window & 1)
		window++;
	return max_u32(window, NATIVE_LEAST);
}

/*
 * TCP marks every packet of a burst that begins with nothing in flight, also where the burst fills the
 * window. Slow start goes on where TCP's own would: up to twice what was in flight.
 */
static __always_inline bool native_fills_window(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < 2 * ((const struct tcp_sock___native *)tp)->max_packets_out;
}

/* Since something was acknowledged, ns. While nothing is in flight, a packet that leaves does not count. */
static __always_inline u64 native_pause(const struct tcp_sock *tp)
{
	u64 acked_at = ((const struct tcp_sock___native *)tp)->delivered_mstamp;

	return sub_u64(tp->tcp_mstamp, acked_at) * 1000;
}

/* On a path whose RTT is shorter, in us, a burst waits no longer than what counts as no queue. */
#define NATIVE_UNPACED 1000

static __always_inline bool native_is_paced(const struct sock *sk, u64 base_us)
{
	/* The program itself asked for a rate by SO_MAX_PACING_RATE. */
	return base_us >= NATIVE_UNPACED || sk->sk_max_pacing_rate != ~0UL;
}

/* That of the kernel's own congestion controls: two windows in an RTT. TCP sizes its segments by it. */
static __always_inline u64 native_unpaced_rate(const struct tcp_sock *tp)
{
	u64 srtt_us = tp->srtt_us >> 3;

	return srtt_us ? 2000000ULL * tp->snd_cwnd * tp->mss_cache / srtt_us : 0;
}

/* `rate` in bytes per second; 0: not known yet. */
static __always_inline void native_pace(struct sock *sk, u64 rate, bool paced)
{
	u64 most = sk->sk_max_pacing_rate;

	if (paced && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!paced && sk->sk_pacing_status == SK_PACING_NEEDED)
		sk->sk_pacing_status = SK_PACING_NONE;
	sk->sk_pacing_rate = rate && rate < most ? rate : most;
}

/* Below two packets in a millisecond each packet leaves by itself. */
static __always_inline u32 native_least_burst(struct sock *sk)
{
	u64 packet = max_u32(tcp_sk(sk)->mss_cache, 1);

	return sk->sk_pacing_rate < 2000 * packet ? 1 : 2;
}

/* What `cellpace kernel watch` reads of a socket; see crates/kernel/src/native/sockets.rs. */
struct native_socket {
	u8 local[16]; /* addresses, an IPv4 one in the first four bytes */
	u8 remote[16];
	u16 family;
	u16 local_port;
	u16 remote_port;
	u16 phase;
	u32 window; /* packets */
	u32 in_flight;
	u32 packet; /* bytes of a full one */
	u32 base_us;
	u32 srtt_us;
	u32 queue_us; /* that the last ack has shown */
	u64 rate;     /* that the path delivers, bytes per second */
	u64 pacing;   /* bytes per second */
	u64 acked;    /* bytes */
	u64 sent;     /* bytes, retransmissions with them */
	u32 segments; /* the same in packets */
	u32 retransmitted;
	u32 namespace; /* inode of its network namespace */
	u32 unused;
};

enum { NATIVE_STEADY = 0, NATIVE_SLOW_START, NATIVE_SEARCH, NATIVE_RIVALS };

/* include/linux/bpf.h, as programs of iterators see them. */
struct bpf_iter_meta {
	__bpf_md_ptr(struct seq_file *, seq);
	u64 session_id;
	u64 seq_num;
} __attribute__((preserve_access_index));

struct bpf_iter__bpf_sk_storage_map {
	__bpf_md_ptr(struct bpf_iter_meta *, meta);
	__bpf_md_ptr(struct bpf_map *, map);
	__bpf_md_ptr(struct sock *, sk);
	__bpf_md_ptr(void *, value);
} __attribute__((preserve_access_index));

/* What is TCP's own of it. */
static __always_inline void native_describe(struct native_socket *is, const struct tcp_sock *tp)
{
	const struct sock_common *common = &tp->inet_conn.icsk_inet.sk.__sk_common;

	is->family = common->skc_family;
	is->local_port = common->skc_num;
	is->remote_port = __builtin_bswap16(common->skc_dport);
	if (is->family == NATIVE_IPV6) {
		__builtin_memcpy(is->local, &common->skc_v6_rcv_saddr, 16);
		__builtin_memcpy(is->remote, &common->skc_v6_daddr, 16);
	} else {
		u32 local = common->skc_rcv_saddr, remote = common->skc_daddr;

		__builtin_memcpy(is->local, &local, 4);
		__builtin_memcpy(is->remote, &remote, 4);
	}
	is->window = tp->snd_cwnd;
	is->in_flight = packets_in_flight(tp);
	is->packet = tp->mss_cache;
	is->srtt_us = tp->srtt_us >> 3;
	is->pacing = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
	is->acked = tp->bytes_acked;
	is->sent = tp->bytes_sent;
	is->namespace = common->skc_net.net->ns.inum;
	is->segments = tp->data_segs_out;
	is->retransmitted = tp->total_retrans;
}

#endif
