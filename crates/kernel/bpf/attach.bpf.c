// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Puts connections under the kernel driver from outside, for programs that cannot be preloaded.
 *
 * Attached to a cgroup, it is asked at the end of each handshake of the cgroup's sockets, before
 * the first data: at the ports that are named it selects the congestion control, writes the entry
 * that gives the socket to the daemon, and announces the socket to it. A controller that is in the
 * kernel by itself takes no entry.
 */
#include "kernel.h"
#include "layout.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "maps.h"

char _license[] SEC("license") = "GPL";

/* include/uapi/linux/bpf.h: a layout that never changes. */
enum {
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
};

struct bpf_sock;

struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family;
	u32 remote_ip4; /* addresses in network order */
	u32 local_ip4;
	u32 remote_ip6[4];
	u32 local_ip6[4];
	u32 remote_port; /* in network order */
	u32 local_port; /* in host order */
	u32 is_fullsock;
	u32 snd_cwnd;
	u32 srtt_us;
	u32 bpf_sock_ops_cb_flags;
	u32 state;
	u32 rtt_min;
	u32 snd_ssthresh;
	u32 rcv_nxt;
	u32 snd_nxt;
	u32 snd_una;
	u32 mss_cache;
	u32 between[13];
	u64 bytes_received;
	u64 bytes_acked;
	struct bpf_sock *sk;
};

_Static_assert(__builtin_offsetof(struct bpf_sock_ops, mss_cache) == 112, "as in linux/bpf.h");
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "as in linux/bpf.h");

enum { AF_INET = 2, AF_INET6 = 10, IPPROTO_TCP = 6, TCP_CONGESTION = 13 };

/* What crates/run holds at most. */
#define MAX_RANGES 64
/* Arms of an experiment, as attach.rs has it. */
#define MAX_ARMS 16
/* Clients' networks that have an arm at once; of more the longest unseen go. */
#define MAX_CLIENTS (1 << 16)
/* RFC 6928 section 2: until the daemon has said more. */
#define INITIAL_WINDOW 10
/* Bytes of announcements: of 16 384 connections that the daemon has not looked at. */
#define ANNOUNCEMENTS (1 << 20)

struct range {
	u16 first, last;
};

struct ranges {
	u32 count;
	struct range range[MAX_RANGES];
};

/* What connections get: written by the loader. */
struct rules {
	char name[16]; /* of the congestion control; none: it stays as it is */
	u64 owner; /* of the daemon's slot */
	u32 slot;
	struct ranges accepted; /* by local port */
	struct ranges opened; /* by the peer's port */
	u32 native; /* the congestion control is the controller */
	u32 share; /* of 2^32 connections, so many less one are wanted */
};

/* What was not put under control, and why. */
struct missed {
	u64 unannounced; /* the daemon did not read announcements in time */
	u64 full; /* too many sockets under control */
	u64 refused; /* no such congestion control */
};

struct announcement {
	u64 cookie;
	u64 acked; /* bytes that TCP counts as acknowledged: a SYN of ours is one */
	u32 local[4]; /* addresses as IPv6 has them, in network order */
	u32 peer[4];
	u16 local_port;
	u16 peer_port;
	u32 mss; /* bytes of payload in a full packet */
	u16 header; /* bytes of TCP's header with the options of every packet */
	u8 opened;
	u8 arm;
	u8 drawn; /* the arm was drawn for it: else it has the first arm until the daemon draws */
	u8 reserved[3];
};

/* For what arms are drawn. */
enum draw_by { DRAW_CHOSEN, DRAW_CLIENT, DRAW_CONNECTION };

/* How new connections get an arm: written by the loader. */
struct drawing {
	u32 by;
	u32 chosen; /* the arm of all */
	u32 below[MAX_ARMS]; /* of 2^32 connections, how many get this arm or one before it */
};

/* A network of clients: IPv4 /24, with 1 as its family, or IPv6 /64. */
struct client {
	u32 network[2]; /* in network order */
	u32 is_ipv4;
};

_Static_assert(sizeof(struct rules) == 560, "as in attach.rs");
_Static_assert(sizeof(struct missed) == 24, "as in attach.rs");
_Static_assert(sizeof(struct drawing) == 72, "as in attach.rs");
_Static_assert(sizeof(struct client) == 12, "as in attach.rs");
_Static_assert(sizeof(struct announcement) == 64, "as in attach.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_ARMS);
	__type(key, u32);
	__type(value, struct rules);
} rules SEC(".maps");

/* Which of them new connections get: the loader changes it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct drawing);
} drawing SEC(".maps");

/* The arms of clients: the daemon draws one for each that is new. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_CLIENTS);
	__type(key, struct client);
	__type(value, u32);
} clients SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct missed);
} missed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, ANNOUNCEMENTS);
} announcements SEC(".maps");

/* The kernel driver's own: the loader puts it here. */
struct controls_map controls SEC(".maps");

static inline bool has(const struct ranges *ranges, u16 port)
{
	for (u32 i = 0; i < MAX_RANGES && i < ranges->count; i++) {
		if (port >= ranges->range[i].first && port <= ranges->range[i].last)
			return true;
	}
	return false;
}

static inline u16 peer_port(const struct bpf_sock_ops *ctx)
{
	return (u16)bpf_ntohl(ctx->remote_port);
}

static inline bool wanted(const struct bpf_sock_ops *ctx, const struct rules *rules)
{
	if (ctx->family != AF_INET && ctx->family != AF_INET6)
		return false;
	if (ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return has(&rules->accepted, (u16)ctx->local_port);
	return ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && has(&rules->opened, peer_port(ctx));
}

/*
 * IPv4 mapped into IPv6 (RFC 4291 section 2.5.5.2), as sockets for both have it. Each field is read
 * by itself and always: the verifier wants constant offsets into the context.
 */
static inline void addresses(const volatile struct bpf_sock_ops *ctx, struct announcement *told)
{
	u32 local = ctx->local_ip4, peer = ctx->remote_ip4;

	told->local[0] = ctx->local_ip6[0];
	told->local[1] = ctx->local_ip6[1];
	told->local[2] = ctx->local_ip6[2];
	told->local[3] = ctx->local_ip6[3];
	told->peer[0] = ctx->remote_ip6[0];
	told->peer[1] = ctx->remote_ip6[1];
	told->peer[2] = ctx->remote_ip6[2];
	told->peer[3] = ctx->remote_ip6[3];
	if (ctx->family != AF_INET)
		return;
	told->local[0] = told->local[1] = told->peer[0] = told->peer[1] = 0;
	told->local[2] = told->peer[2] = bpf_htonl(0xffff);
	told->local[3] = local;
	told->peer[3] = peer;
}

static inline u16 header_of(struct bpf_sock_ops *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	return tp ? tp->tcp_header_len : 20;
}

static inline void describe(struct bpf_sock_ops *ctx, struct announcement *told, u64 cookie)
{
	__builtin_memset(told, 0, sizeof(*told));
	told->cookie = cookie;
	told->acked = ctx->bytes_acked;
	told->local_port = (u16)ctx->local_port;
	told->peer_port = peer_port(ctx);
	told->mss = ctx->mss_cache;
	told->header = header_of(ctx);
	told->opened = ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB;
	addresses(ctx, told);
}

/*
 * The entry before the congestion control, so that the socket is under control from its first
 * packet. Whoever has the socket already (its program, another daemon) keeps it.
 */
static inline bool give(struct bpf_sock_ops *ctx, struct rules *rules, struct missed *count,
			u64 cookie)
{
	struct control control = {
		.window = (u64)INITIAL_WINDOW * ctx->mss_cache,
		.owner = rules->owner,
		.policy = POLICY_HOLD,
		.slot = rules->slot,
	};

	if (!rules->name[0])
		return true;
	if (!rules->native && bpf_map_lookup_elem(&controls, &cookie))
		return false;
	if (!rules->native && bpf_map_update_elem(&controls, &cookie, &control, BPF_NOEXIST)) {
		__sync_fetch_and_add(&count->full, 1);
		return false;
	}
	if (!bpf_setsockopt(ctx, IPPROTO_TCP, TCP_CONGESTION, rules->name, sizeof(rules->name)))
		return true;
	if (!rules->native)
		bpf_map_delete_elem(&controls, &cookie);
	__sync_fetch_and_add(&count->refused, 1);
	return false;
}

/* The arm of its client; MAX_ARMS before the daemon has drawn one, and of clients that are not in the experiment. */
static inline u32 arm_of_client(const struct announcement *told)
{
	struct client client = { .network = { told->peer[0], told->peer[1] } };
	u32 *arm;

	if (!told->peer[0] && !told->peer[1] && told->peer[2] == bpf_htonl(0xffff)) {
		client.network[0] = told->peer[3] & bpf_htonl(0xffffff00);
		client.is_ipv4 = 1;
	}
	arm = bpf_map_lookup_elem(&clients, &client);
	return arm ? *arm : MAX_ARMS;
}

static inline u32 arm_of_connection(const struct drawing *drawing)
{
	u32 draw = bpf_get_prandom_u32();

	for (u32 arm = 0; arm < MAX_ARMS; arm++) {
		if (draw < drawing->below[arm])
			return arm;
	}
	return MAX_ARMS;
}

/* The arm of a connection that is described, and into its description. */
static inline u32 draw(const struct drawing *drawing, struct announcement *told)
{
	u32 arm = drawing->chosen;

	if (drawing->by == DRAW_CLIENT)
		arm = arm_of_client(told);
	else if (drawing->by == DRAW_CONNECTION)
		arm = arm_of_connection(drawing);
	told->drawn = arm < MAX_ARMS;
	told->arm = told->drawn ? arm : 0;
	return told->arm;
}

SEC("sockops")
int attach(struct bpf_sock_ops *ctx)
{
	struct drawing *how;
	struct announcement *told;
	struct missed *count;
	struct rules *rule;
	u64 cookie;
	u32 zero = 0, arm;

	/* Ports and share are those of all arms. */
	rule = bpf_map_lookup_elem(&rules, &zero);
	how = bpf_map_lookup_elem(&drawing, &zero);
	count = bpf_map_lookup_elem(&missed, &zero);
	if (!rule || !how || !count || !wanted(ctx, rule))
		return 1;
	if (rule->share != ~0u && bpf_get_prandom_u32() >= rule->share)
		return 1;
	/* The room first: a socket that the daemon does not know would keep its first window. */
	told = bpf_ringbuf_reserve(&announcements, sizeof(*told), 0);
	if (!told) {
		__sync_fetch_and_add(&count->unannounced, 1);
		return 1;
	}
	cookie = bpf_get_socket_cookie(ctx);
	describe(ctx, told, cookie);
	arm = draw(how, told);
	rule = bpf_map_lookup_elem(&rules, &arm);
	if (rule && give(ctx, rule, count, cookie))
		bpf_ringbuf_submit(told, 0);
	else
		bpf_ringbuf_discard(told, 0);
	return 1;
}
