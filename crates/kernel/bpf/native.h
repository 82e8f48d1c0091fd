/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * What congestion controls that run in the kernel by themselves share: what is known of an installation,
 * and how a window and a pacing rate become TCP's.
 */
#ifndef CELLPACE_NATIVE_H
#define CELLPACE_NATIVE_H

/* What the loader says of it, for `cellpace kernel status` and `remove`; see crates/kernel/src/native. */
struct native_about {
	u64 installed_at;    /* seconds since 1970 */
	char controller[64]; /* as on the command line */
	char version[16];    /* of the cellpace that installed it */
	char before[16];     /* the default of this network namespace before `--default`; empty: untouched */
};

/* A window of less cannot tell a loss from a delayed ack. */
#define NATIVE_LEAST 2
/* While fewer are on their way, a delayed ack may be all there is to learn from. */
#define NATIVE_FEW 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct tcp_sock___native {
	u32 snd_cwnd_clamp;
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

static __always_inline void native_begin(struct sock *sk)
{
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Never above what the program itself asked for by SO_MAX_PACING_RATE. 0: not paced. */
static __always_inline void native_pace(struct sock *sk, u64 rate)
{
	u64 most = sk->sk_max_pacing_rate;

	sk->sk_pacing_rate = rate && rate < most ? rate : most;
}

/* Below two packets in a millisecond each packet leaves by itself. */
static __always_inline u32 native_least_burst(struct sock *sk)
{
	u64 packet = max_u32(tcp_sk(sk)->mss_cache, 1);

	return sk->sk_pacing_rate < 2000 * packet ? 1 : 2;
}

#endif
