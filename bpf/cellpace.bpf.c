// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/* The kernel driver's congestion control. A minimal one that holds a window of ten packets. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "GPL";

SEC("struct_ops/init")
void BPF_PROG(init, struct sock *sk)
{
	tcp_sk(sk)->snd_cwnd = 10;
}

SEC("struct_ops/ssthresh")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops/undo_cwnd")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return 10;
}

/* From Linux 6.10. */
SEC("struct_ops/cong_control")
void BPF_PROG(cong_control, struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	tcp_sk(sk)->snd_cwnd = 10;
}

/* Before Linux 6.10. */
SEC("struct_ops/cong_control_old")
void BPF_PROG(cong_control_old, struct sock *sk, const struct rate_sample *rs)
{
	tcp_sk(sk)->snd_cwnd = 10;
}

SEC(".struct_ops")
struct tcp_congestion_ops ack_args = {
	.name = "cellpace",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.cong_control = (void *)cong_control,
};

SEC(".struct_ops")
struct tcp_congestion_ops rs_args = {
	.name = "cellpace",
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = (void *)init,
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.cong_control = (void *)cong_control_old,
};
