// SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 OR MIT
/*
 * Asks receivers to acknowledge at once: sets PSH in the segments of sockets that are under
 * control, when they leave by a device.
 *
 * A receiver may wait 40 ms and more for a second packet before it acknowledges the first. Linux
 * does not wait when the packet has PSH and its program has read all there is (tcp_cleanup_rbuf).
 * Of a burst that the device or the kernel splits later (GSO), only the last segment keeps PSH.
 */
#include "kernel.h"
#include "layout.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "alive.h"
#include "maps.h"

char _license[] SEC("license") = "GPL";

/* include/uapi/linux/bpf.h: the first fields of a layout that never changes. */
struct __sk_buff {
	u32 len;
};

/* Other programs on the device have their turn. */
enum { TCX_NEXT = -1 };

enum {
	PROTOCOL_HOP_BY_HOP = 0,
	PROTOCOL_TCP = 6,
	PROTOCOL_ROUTING = 43,
	PROTOCOL_AUTHENTICATION = 51,
	PROTOCOL_DESTINATION = 60,
};

/* RFC 8200 section 4.1: as many as there are kinds of, and destination options twice. */
#define MAX_EXTENSIONS 8

/* RFC 9293 section 3.1: offsets in the header, and flags in the word at the first. */
#define TCP_FLAGS 12
#define TCP_CHECKSUM 16
#define TCP_LEAST_HEADER 20
#define FLAG_SYN 0x02
#define FLAG_RST 0x04
#define FLAG_PSH 0x08

/* All three are the kernel driver's own: the loader puts them here. */
struct controls_map controls SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, u32);
	__type(value, struct shared);
} shared SEC(".maps");

struct prompted_map prompted SEC(".maps");

extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym;

/* A socket that goes by RFC 5681 gains nothing from more acknowledgments. */
static inline bool is_held(u64 cookie)
{
	const struct control *control;
	const struct shared *page;
	u32 zero = 0;

	control = cookie ? bpf_map_lookup_elem(&controls, &cookie) : 0;
	if (!control || control->policy != POLICY_HOLD)
		return false;
	page = bpf_map_lookup_elem(&shared, &zero);
	return page && has_heartbeat(page, control);
}

/*
 * Where the IP header begins. Devices differ in what stands before it: nothing (TUN, WireGuard),
 * Ethernet, a tag of VLAN.
 */
static inline s32 network_offset(struct __sk_buff *ctx)
{
	const struct sk_buff *skb = bpf_cast_to_kern_ctx(ctx);

	return (s32)skb->network_header - (s32)(skb->data - skb->head);
}

static inline s32 tcp_in_ipv4(struct __sk_buff *ctx, s32 at)
{
	u8 header[20];
	u32 length;

	if (bpf_skb_load_bytes(ctx, at, header, sizeof(header)))
		return -1;
	length = (header[0] & 15) * 4;
	/* RFC 791 section 3.1: neither a fragment nor followed by one. */
	if (header[6] & 0x3f || header[7])
		return -1;
	return header[9] == PROTOCOL_TCP && length >= sizeof(header) ? at + (s32)length : -1;
}

static inline s32 tcp_in_ipv6(struct __sk_buff *ctx, s32 at)
{
	struct {
		u8 next, length;
	} extension;
	u8 protocol;

	if (bpf_skb_load_bytes(ctx, at + 6, &protocol, sizeof(protocol)))
		return -1;
	at += 40;
	for (u32 i = 0; i <= MAX_EXTENSIONS; i++) {
		if (protocol == PROTOCOL_TCP)
			return at;
		if (bpf_skb_load_bytes(ctx, at, &extension, sizeof(extension)))
			return -1;
		if (protocol == PROTOCOL_AUTHENTICATION) /* RFC 4302 section 2.2 */
			at += (extension.length + 2) * 4;
		else if (protocol == PROTOCOL_HOP_BY_HOP || protocol == PROTOCOL_ROUTING ||
			 protocol == PROTOCOL_DESTINATION)
			at += (extension.length + 1) * 8;
		else
			return -1;
		protocol = extension.next;
	}
	return -1;
}

/*
 * Where the TCP header begins, or less than 0. The packet may be another one than the socket's:
 * with a tunnel around it, it keeps the socket.
 */
static inline s32 tcp_offset(struct __sk_buff *ctx)
{
	s32 at = network_offset(ctx);
	u8 version;

	if (at < 0 || bpf_skb_load_bytes(ctx, at, &version, sizeof(version)))
		return -1;
	version >>= 4;
	if (version == 4)
		return tcp_in_ipv4(ctx, at);
	return version == 6 ? tcp_in_ipv6(ctx, at) : -1;
}

/* The kernel driver goes by it, so it is told before the packet leaves. */
static inline void tell(u64 cookie)
{
	u64 now = bpf_ktime_get_ns();
	u64 *last = bpf_map_lookup_elem(&prompted, &cookie);

	if (last)
		*last = now;
	else
		bpf_map_update_elem(&prompted, &cookie, &now, BPF_ANY);
}

SEC("tcx/egress")
int prompt(struct __sk_buff *ctx)
{
	/* Packets that are only forwarded have no socket here. */
	u64 cookie = bpf_get_socket_cookie(ctx);
	__be16 before, after;
	u32 header, word;
	s32 tcp;

	if (!is_held(cookie))
		return TCX_NEXT;
	tcp = tcp_offset(ctx);
	if (tcp < 0 || bpf_skb_load_bytes(ctx, tcp + TCP_FLAGS, &before, sizeof(before)))
		return TCX_NEXT;
	word = bpf_ntohs(before);
	header = (word >> 12) * 4;
	/* The packet's own length says whether it has data: that in the IP header may be 0 (BIG TCP). */
	if (header < TCP_LEAST_HEADER || ctx->len <= (u32)tcp + header)
		return TCX_NEXT;
	if (word & (FLAG_SYN | FLAG_RST))
		return TCX_NEXT;
	tell(cookie);
	if (word & FLAG_PSH)
		return TCX_NEXT;
	after = bpf_htons(word | FLAG_PSH);
	/*
	 * The helpers make the header ours if it is shared, and leave the sum alone where it is
	 * computed only later (CHECKSUM_PARTIAL). The sum comes first: the call makes all before it
	 * writable, so that the flag cannot fail after it and leave a broken packet.
	 */
	if (bpf_l4_csum_replace(ctx, tcp + TCP_CHECKSUM, before, after, sizeof(after)))
		return TCX_NEXT;
	bpf_skb_store_bytes(ctx, tcp + TCP_FLAGS, &after, sizeof(after), 0);
	return TCX_NEXT;
}
