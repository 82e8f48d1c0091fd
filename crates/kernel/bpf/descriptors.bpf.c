// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Finds where programs have sockets that are known by their cookies: process and descriptor.
 *
 * An iterator over the open files of all processes (Linux 5.8): one read of it looks at all of them
 * within the kernel, and reports the sockets being looked up. It sees nothing of a file but whether
 * it is a socket and which. Fields are read as tracing programs may, and not by helpers of later
 * kernels (bpf_sock_from_file of 5.11).
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char _license[] SEC("license") = "GPL";

/* include/uapi/linux/magic.h */
#define SOCKFS_MAGIC 0x534F434B
/* `MOST` of descriptors.rs. */
#define MAX_WANTED 4096

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	unsigned long s_magic;
};

struct inode {
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct socket {
	struct sock *sk;
};

struct upid {
	int nr;
};

/* One number for each namespace of processes that it is seen from, the outermost first. */
struct pid {
	unsigned int level;
	struct upid numbers[1];
};

struct task_struct {
	struct task_struct *group_leader;
	struct pid *thread_pid;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

#pragma clang attribute pop

/* kernel/bpf/task_iter.c: pointers have eight bytes on all architectures. */
struct bpf_iter__task_file {
	struct bpf_iter_meta *meta __attribute__((aligned(8)));
	struct task_struct *task __attribute__((aligned(8)));
	u32 fd __attribute__((aligned(8)));
	struct file *file __attribute__((aligned(8)));
};

struct place {
	u64 cookie;
	u32 pid; /* of the process, as whoever reads sees it */
	u32 descriptor;
};

_Static_assert(sizeof(struct place) == 16, "as in descriptors.rs");

/* Cookies that are searched, put here before each pass. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_WANTED);
	__type(key, u64);
	__type(value, u8);
} wanted SEC(".maps");

/* 0 if it is no socket, or nobody has asked for its cookie yet. */
static inline u64 cookie_of(struct file *file)
{
	struct socket *socket = file->private_data;
	struct sock *sk = 0;
	u64 cookie = 0;

	if (!socket || file->f_inode->i_sb->s_magic != SOCKFS_MAGIC)
		return 0;
	if (bpf_core_read(&sk, sizeof(sk), &socket->sk) || !sk)
		return 0;
	if (bpf_core_read(&cookie, sizeof(cookie), &sk->__sk_common.skc_cookie.counter))
		return 0;
	return cookie;
}

/* The process's number in the namespace of whoever reads; 0 if that cannot be told. */
static inline u32 number_of(struct task_struct *task)
{
	struct task_struct *reader = (void *)bpf_get_current_task();
	/* As a number, since verifiers before 6.12 add nothing to pointers that they know the type of. */
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);
	u32 level = BPF_CORE_READ(reader, thread_pid, level);
	const char *numbers = (const char *)__builtin_preserve_access_index(&pid->numbers[0]);
	int number = 0;

	if (!pid || level > BPF_CORE_READ(pid, level))
		return 0;
	numbers += (u64)level * bpf_core_type_size(struct upid);
	if (bpf_probe_read_kernel(&number, sizeof(number), numbers + bpf_core_field_offset(struct upid, nr)))
		return 0;
	return number;
}

SEC("iter/task_file")
int find(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct place place = {};

	if (!task || !file)
		return 0;
	place.cookie = cookie_of(file);
	if (!place.cookie || !bpf_map_lookup_elem(&wanted, &place.cookie))
		return 0;
	place.pid = number_of(task);
	place.descriptor = ctx->fd;
	if (place.pid)
		bpf_seq_write(ctx->meta->seq, &place, sizeof(place));
	return 0;
}
