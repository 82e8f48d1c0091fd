/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT */
/*
 * The few kernel types that the programs here look at. Not a copy of the kernel's headers: each
 * struct names only the fields that are used, in any order; the loader finds where they are in the
 * running kernel by its BTF (CO-RE). So the programs build on a machine without BTF and without
 * kernel headers.
 */
#ifndef CELLPACE_KERNEL_H
#define CELLPACE_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0

/* include/uapi/linux/bpf.h: numbers that never change. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
};

enum { BPF_RB_NO_WAKEUP = 1ULL << 0 };

enum { BPF_SK_STORAGE_GET_F_CREATE = 1ULL << 0 };

/* include/net/tcp.h */
enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
};

/* include/uapi/linux/tcp.h */
enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };
enum { TCP_CONG_NON_RESTRICTED = 1 };

#define TCP_INFINITE_SSTHRESH 0x7fffffff

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	s64 counter;
} atomic64_t;

struct in6_addr {
	u8 bytes[16];
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	possible_net_t skc_net;
	atomic64_t skc_cookie;
	u16 skc_family;
	u16 skc_num;
	__be16 skc_dport;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u64 icsk_ca_priv[13];
};

struct sk_buff {
	char cb[48];
	u16 network_header;
	unsigned char *head;
	unsigned char *data;
};

struct tcp_skb_cb {
	u32 seq;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	struct sk_buff *highest_sack;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
	u32 mss_cache;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u64 tcp_mstamp;
	u32 delivered;
	u32 lost;
	u32 total_retrans;
	u32 srtt_us;
	u32 write_seq;
	u32 snd_nxt;
	u32 snd_una;
	u32 data_segs_out;
	u16 tcp_header_len;
	u64 bytes_acked;
	u64 bytes_sent;
};

struct ack_sample;
struct module;
union tcp_cc_info;

struct rate_sample {
	u32 prior_delivered;
	s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
	bool is_retrans;
};

#pragma clang attribute pop

/*
 * The loader copies the members by name, so their order is free: `name` and `flags` stand first,
 * where the loader writes them. `cong_control` is not declared with its arguments, since the
 * kernel's changed in 6.10.
 */
struct tcp_congestion_ops {
	char name[16];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk);
};

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static inline u32 min_u32(u32 a, u32 b)
{
	return a < b ? a : b;
}

static inline u32 max_u32(u32 a, u32 b)
{
	return a > b ? a : b;
}

/* RFC 6675 section 4, pipe: what the sender believes to be in the network, in packets. */
static inline u32 packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

#endif
