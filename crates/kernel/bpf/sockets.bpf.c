// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Goes through the TCP sockets of this network namespace and moves those under one congestion control to
 * another, which may have the same name: that of a newer program.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include "native.h"

char _license[] SEC("license") = "GPL";

#define SOL_TCP 6
#define TCP_CONGESTION 13

/* Set by the loader. */
const volatile struct {
	char from[16];
	char to[16];
} names SEC(".rodata.names");

__u64 moved;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct tcp_congestion_ops___named {
	char name[16];
};

struct inet_connection_sock___ops {
	const struct tcp_congestion_ops___named *icsk_ca_ops;
};

struct bpf_iter__tcp {
	__bpf_md_ptr(struct bpf_iter_meta *, meta);
	__bpf_md_ptr(struct sock_common *, sk_common);
};
#pragma clang attribute pop

SEC("iter/tcp")
int move(struct bpf_iter__tcp *ctx)
{
	const struct tcp_congestion_ops___named *ops;
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp;
	char name[16], to[16];

	tp = common ? bpf_skc_to_tcp_sock(common) : 0;
	if (!tp)
		return 0;
	ops = ((struct inet_connection_sock___ops *)&tp->inet_conn)->icsk_ca_ops;
	if (!ops || bpf_probe_read_kernel(name, sizeof(name), &ops->name))
		return 0;
	for (int i = 0; i < 16; i++) {
		if (name[i] != names.from[i])
			return 0;
		if (!name[i])
			break;
	}
	for (int i = 0; i < 16; i++)
		to[i] = names.to[i];
	if (!bpf_setsockopt(common, SOL_TCP, TCP_CONGESTION, to, sizeof(to)))
		moved++;
	return 0;
}
